//! The faults between the drivers and EC2: how frequent they are in a run, and the outcome of each call.

use std::time::Duration;

use ebs_ec2::Action;

use crate::rng::Rng;

/// How long EC2's reads may be stale. A read within this time after a change proves nothing.
pub(crate) const SETTLE: Duration = Duration::from_secs(15);

#[derive(Debug, Clone)]
pub(crate) struct FaultPlan {
    rates: Rates,
    /// EC2 checks the client token last, so a call can fail although its token has created an object.
    pub(crate) token_last: bool,
    /// How late a call may still take effect after its caller got an unclear response, died or lost its lease. Together
    /// with `max_lag`, it is at most [`SETTLE`]: 15 s after a mutating call, its effect is visible or never happens.
    pub(crate) latest: Duration,
    pub(crate) max_lag: Duration,
}

/// How often each fault happens, per thousand calls.
#[derive(Debug, Clone, Default)]
struct Rates {
    lost_request: u64,
    lost_reply: u64,
    late: u64,
    not_sent: u64,
    throttled: u64,
    slow: u64,
    no_room: u64,
    denied: u64,
    no_key: u64,
    /// EC2 answers a mutating call for a new object with "not found".
    broken: u64,
    /// A mutating call fails because EC2 does not know a new object yet.
    behind: u64,
    no_dry_run: u64,
}

#[derive(Debug, Clone)]
pub(crate) struct CallOutcome {
    pub(crate) before: Duration,
    pub(crate) delivery: Delivery,
    pub(crate) after: Duration,
    pub(crate) response: Response,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Now,
    Never,
    /// The call reaches EC2 this long after its caller got another response.
    Late(Duration),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// EC2's own response.
    Answer,
    Unclear,
    NotSent,
    Throttled,
    NoRoom,
    Denied,
    NoKey,
    NoSource,
    /// EC2 reports the object as unknown.
    NotYet,
}

impl FaultPlan {
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let severity = [0, 1, 1, 2, 2, 4][rng.below(6)];
        let mut times = |most: u64| if rng.per_mille(700) { severity * rng.between(0, most) } else { 0 };
        let [lost_request, lost_reply, late] = [times(40), times(60), times(40)];
        let [not_sent, throttled, slow, no_room] = [times(25), times(60), times(80), times(40)];
        let [denied, no_key, broken, behind] = [times(20), times(150), times(60), times(100)];
        let max_lag = Duration::from_secs([0, 0, 3, 10, 15][rng.below(5)]);
        let latest = (SETTLE - max_lag).min(Duration::from_secs(rng.between(0, 12)));
        let token_last = rng.per_mille(500);
        let no_dry_run = if severity > 0 && rng.per_mille(500) { 500 } else { 0 };
        #[rustfmt::skip]
        let rates = Rates {
            lost_request, lost_reply, late, not_sent, throttled, slow, no_room, denied, no_key, broken, behind, no_dry_run,
        };
        Self { rates, token_last, latest, max_lag }
    }

    /// Makes calls take effect later than the drivers can expect.
    pub(crate) fn late_beyond_belief(mut self) -> Self {
        self.rates.late = self.rates.late.max(100);
        Self { latest: 6 * SETTLE, ..self }
    }

    /// Ends the faults. Calls that are in flight may still take effect late.
    pub(crate) fn end_faults(&mut self) {
        self.rates = Rates::default();
    }

    pub(crate) fn can_lack_room(&self) -> bool {
        self.rates.no_room > 0
    }

    pub(crate) fn outcome(&self, rng: &mut Rng, action: Action) -> CallOutcome {
        let rates = &self.rates;
        let slow = rng.per_mille(rates.slow);
        let (before, after) = if slow { (some_time(rng), some_time(rng)) } else { (Duration::ZERO, Duration::ZERO) };
        let rejected = |response| CallOutcome { before, delivery: Delivery::Never, after, response };
        let unclear = |rng: &mut Rng, delivery| {
            let after = if rng.per_mille(500) { Duration::ZERO } else { some_time(rng) };
            CallOutcome { before, delivery, after, response: Response::Unclear }
        };
        let rejections = [
            (rates.throttled, Response::Throttled),
            (rates.denied, Response::Denied),
            (rates.not_sent, Response::NotSent),
        ];
        for (rate, response) in rejections {
            if rng.per_mille(rate) {
                return rejected(response);
            }
        }
        if rng.per_mille(rates.lost_request) {
            return unclear(rng, Delivery::Never);
        }
        if rng.per_mille(rates.lost_reply) {
            return unclear(rng, Delivery::Now);
        }
        if action.mutates() && rng.per_mille(rates.late) && !self.latest.is_zero() {
            let late = rng.millis(0, u64::try_from(self.latest.as_millis()).unwrap_or(0));
            return unclear(rng, Delivery::Late(late));
        }
        if action == Action::CreateVolume {
            for (rate, response) in [(rates.no_room, Response::NoRoom), (rates.no_key, Response::NoKey)] {
                if rng.per_mille(rate) {
                    return rejected(response);
                }
            }
        }
        CallOutcome { before, delivery: Delivery::Now, after, response: Response::Answer }
    }

    pub(crate) fn throttles_a_dry_run(&self, rng: &mut Rng) -> bool {
        rng.per_mille(self.rates.no_dry_run)
    }

    /// Draws whether EC2 still reports an object of this age as unknown.
    pub(crate) fn is_behind(&self, rng: &mut Rng, age: Duration) -> bool {
        age < self.max_lag && rng.per_mille(self.rates.behind)
    }

    pub(crate) fn breaks(&self, rng: &mut Rng) -> bool {
        rng.per_mille(self.rates.broken)
    }
}

/// Draws a time: mostly seconds, sometimes minutes (longer than the deadline of any RPC).
fn some_time(rng: &mut Rng) -> Duration {
    match rng.below(10) {
        0..=5 => rng.millis(20, 3_000),
        6..=8 => rng.millis(3_000, 40_000),
        _ => rng.millis(40_000, 240_000),
    }
}
