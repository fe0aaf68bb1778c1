//! How long things take.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::engine::{Timing, TimingOverride};

/// Time of each transition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) create: Duration,
    pub(super) delete: Duration,
    pub(super) attach: Duration,
    pub(super) detach: Duration,
    pub(super) snapshot: Duration,
    pub(super) modify: Duration,
    pub(super) optimize: Duration,
    /// `pending` → `running`.
    pub(super) run: Duration,
    /// `shutting-down` → `terminated`.
    pub(super) terminate: Duration,
    /// `enabling` → `optimizing`; zero stands for no optimising either.
    pub(super) enable_fast_restore: Duration,
}

impl Times {
    /// The times of a mode; the realistic ones are what small volumes usually take.
    pub(super) fn of(timing: Timing) -> Self {
        let millis = match timing {
            Timing::Instant => [0; 10],
            Timing::Realistic => [2_000, 3_000, 2_500, 4_000, 20_000, 4_000, 60_000, 10_000, 30_000, 10_000],
        };
        let [create, delete, attach, detach, snapshot, modify, optimize, run, terminate, enable_fast_restore] =
            millis.map(Duration::from_millis);
        Self { create, delete, attach, detach, snapshot, modify, optimize, run, terminate, enable_fast_restore }
    }

    /// As they could be given.
    pub(super) fn shown(&self) -> TimingOverride {
        let millis = |time: Duration| u64::try_from(time.as_millis()).ok();
        TimingOverride {
            create_ms: millis(self.create),
            delete_ms: millis(self.delete),
            attach_ms: millis(self.attach),
            detach_ms: millis(self.detach),
            snapshot_ms: millis(self.snapshot),
            modify_ms: millis(self.modify),
            optimize_ms: millis(self.optimize),
            run_ms: millis(self.run),
            terminate_ms: millis(self.terminate),
            ..TimingOverride::default()
        }
    }

    /// Takes over what is given.
    pub(super) fn replace(&mut self, with: TimingOverride) {
        for (time, millis) in [
            (&mut self.create, with.create_ms),
            (&mut self.delete, with.delete_ms),
            (&mut self.attach, with.attach_ms),
            (&mut self.detach, with.detach_ms),
            (&mut self.snapshot, with.snapshot_ms),
            (&mut self.modify, with.modify_ms),
            (&mut self.optimize, with.optimize_ms),
            (&mut self.run, with.run_ms),
            (&mut self.terminate, with.terminate_ms),
        ] {
            if let Some(millis) = millis {
                // A year stands for "never": it keeps every sum of times in range.
                *time = Duration::from_millis(millis).min(Duration::from_hours(365 * 24));
            }
        }
    }
}
