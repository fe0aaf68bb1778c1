//! The durations of transitions.

use std::hash::{Hash as _, Hasher};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::config::{EngineConfig, Timing, TimingOverride};

use super::random::mixed;

/// A year means "never". Sums of times that contain it cannot overflow.
const NEVER: Duration = Duration::from_hours(365 * 24);

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Times {
    pub(super) create: Duration,
    pub(super) delete: Duration,
    pub(super) attach: Duration,
    pub(super) detach: Duration,
    pub(super) snapshot: Duration,
    pub(super) modify: Duration,
    pub(super) optimize: Duration,
    pub(super) run: Duration,
    pub(super) terminate: Duration,
    /// `enabling` → `optimizing`. Zero also skips `optimizing`.
    pub(super) enable_fast_restore: Duration,
    /// Maximum deviation of the times in percent, up or down; at most 100.
    spread_percent: u32,
    /// A number that derives from the seed, so that runs with different seeds have different deviations.
    salt: u64,
    /// Time until a volume is initialized from its source. `None`: size and rate determine it.
    pub(super) fill: Option<Duration>,
}

/// The FNV-1a hash, which is the same on every platform and in every version of the simulator.
struct Fnv(u64);

impl Hasher for Fnv {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl Times {
    /// Returns the times for the configured timing. Realistic times are typical for small volumes, plus or minus a
    /// quarter.
    pub(super) fn of(config: &EngineConfig) -> Self {
        let (millis, spread_percent) = match config.timing {
            Timing::Instant => ([0; 10], 0),
            Timing::Realistic => ([2_000, 3_000, 2_500, 4_000, 20_000, 4_000, 60_000, 10_000, 30_000, 10_000], 25),
        };
        let [create, delete, attach, detach, snapshot, modify, optimize, run, terminate, enable_fast_restore] =
            millis.map(Duration::from_millis);
        let fill = (config.timing == Timing::Instant).then_some(Duration::ZERO);
        let salt = config.seed.unwrap_or_else(rand::random);
        Self {
            create,
            delete,
            attach,
            detach,
            snapshot,
            modify,
            optimize,
            run,
            terminate,
            enable_fast_restore,
            fill,
            spread_percent,
            salt,
        }
    }

    /// Returns the end of a transition that begins now and usually takes `usual`. The deviation depends only on `what`
    /// and the time, so time can advance in any number of steps, and a run is repeatable.
    pub(super) fn due(&self, now: SystemTime, usual: Duration, what: Option<&str>) -> SystemTime {
        let whole = usual.saturating_mul(self.spread_percent) / 100;
        if whole.is_zero() {
            return now + usual;
        }
        let mut hasher = Fnv(self.salt);
        now.hash(&mut hasher);
        what.hash(&mut hasher);
        // Choose a position between the earliest and the latest time, in thousandths.
        let place = u32::try_from(mixed(hasher.finish()) % 1001).unwrap_or(500);
        now + usual.saturating_sub(whole) + whole * 2 * place / 1000
    }

    pub(super) fn to_override(&self) -> TimingOverride {
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
            spread_percent: Some(self.spread_percent),
            fill_ms: self.fill.and_then(millis),
            ..TimingOverride::default()
        }
    }

    /// Replaces the given times. They are exact unless the request also has a spread.
    pub(super) fn replace(&mut self, with: TimingOverride) {
        if let Some(millis) = with.fill_ms {
            self.fill = Some(Duration::from_millis(millis).min(NEVER));
        }
        let unchanged = with.spread_percent.is_none() && !with.sets_transitions();
        if !unchanged {
            self.spread_percent = with.spread_percent.unwrap_or(0).min(100);
        }
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
                *time = Duration::from_millis(millis).min(NEVER);
            }
        }
    }
}
