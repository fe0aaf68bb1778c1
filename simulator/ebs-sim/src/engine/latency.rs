//! The duration of a call itself, from its arrival to its reply.

use std::time::Duration;

use crate::api::Call;
use crate::chance::Chance;

use super::{Timing, TimingOverride};

type Span = (Duration, Duration);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Latency {
    mutating: Span,
    describe: Span,
}

impl Latency {
    pub(super) fn of(timing: Timing) -> Self {
        let millis = |least, most| (Duration::from_millis(least), Duration::from_millis(most));
        match timing {
            Timing::Instant => Self { mutating: millis(0, 0), describe: millis(0, 0) },
            Timing::Realistic => Self { mutating: millis(150, 400), describe: millis(50, 150) },
        }
    }

    pub(super) fn replace(&mut self, with: TimingOverride) {
        for (span, millis) in [(&mut self.mutating, with.mutating_call_ms), (&mut self.describe, with.describe_call_ms)]
        {
            if let Some([least, most]) = millis {
                *span = (Duration::from_millis(least), Duration::from_millis(most.max(least)));
            }
        }
    }

    pub(super) fn show(&self, times: &mut TimingOverride) {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let span = |(least, most): Span| Some([millis(least), millis(most)]);
        times.mutating_call_ms = span(self.mutating);
        times.describe_call_ms = span(self.describe);
    }

    pub(super) fn draw(&self, chance: &mut Chance, call: &Call) -> Duration {
        let (least, most) = if call.action().starts_with("Describe") { self.describe } else { self.mutating };
        chance.between(least, most)
    }
}
