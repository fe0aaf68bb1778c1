//! The faults between the drivers and EC2: how often each comes in a run, and what becomes of one call.

use std::time::Duration;

use ebs_ec2::Action;

use crate::rng::Rng;

/// EC2's reads may lag this far behind its writes, and no proof is one before.
pub(crate) const SETTLE: Duration = Duration::from_secs(15);

/// The faults of a run, each in times per thousand calls.
#[derive(Debug, Clone)]
pub(crate) struct FaultPlan {
    lost_request: u64,
    lost_reply: u64,
    late: u64,
    not_sent: u64,
    throttled: u64,
    slow: u64,
    no_room: u64,
    /// The rights to a call are missing, for this one call.
    denied: u64,
    /// EC2 refuses a KMS key.
    no_key: u64,
    /// A volume that was made ends in state `error`.
    broken: u64,
    /// A call that changes something does not know yet what was made a moment ago.
    behind: u64,
    /// A dry run is throttled.
    no_dry_run: u64,
    /// EC2 looks for room, rights and sources before it looks at the client token: then what a token has made does not
    /// keep it from refusing.
    pub(crate) token_last: bool,
    /// A call whose caller has got an unclear answer, or has died or lost its lease, may take effect for so long
    /// after that. Together with `max_lag` it is at most [`SETTLE`]: that is what "15 s after a mutating call its
    /// effect is visible or never comes" means.
    pub(crate) latest: Duration,
    /// How far reads lag.
    pub(crate) max_lag: Duration,
}

/// What becomes of a call.
#[derive(Debug, Clone)]
pub(crate) struct CallOutcome {
    /// On the way there.
    pub(crate) before: Duration,
    pub(crate) delivery: Delivery,
    /// On the way back.
    pub(crate) after: Duration,
    pub(crate) response: Response,
}

/// Whether a call reaches EC2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delivery {
    Now,
    Never,
    /// So long after its caller got another answer.
    Late(Duration),
}

/// The answer that the caller gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Response {
    /// EC2's own answer.
    Answer,
    Unclear,
    NotSent,
    Throttled,
    NoRoom,
    Denied,
    NoKey,
    NoSource,
    /// What the call is about is not known yet.
    NotYet,
}

impl FaultPlan {
    /// From no faults to many.
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
        Self {
            lost_request,
            lost_reply,
            late,
            not_sent,
            throttled,
            slow,
            no_room,
            denied,
            no_key,
            broken,
            behind,
            no_dry_run,
            token_last,
            latest,
            max_lag,
        }
    }

    /// Calls that take effect when nobody counts on it any more.
    pub(crate) fn late_beyond_belief(self) -> Self {
        Self { late: self.late.max(100), latest: 6 * SETTLE, ..self }
    }

    /// No faults any more; what is under way may still come late.
    pub(crate) fn end_faults(&mut self) {
        let Self { latest, max_lag, token_last, .. } = *self;
        let none = 0;
        *self = Self {
            lost_request: none,
            lost_reply: none,
            late: none,
            not_sent: none,
            throttled: none,
            slow: none,
            no_room: none,
            denied: none,
            no_key: none,
            broken: none,
            behind: none,
            no_dry_run: none,
            token_last,
            latest,
            max_lag,
        };
    }

    /// True in runs where zones can be full.
    pub(crate) fn can_lack_room(&self) -> bool {
        self.no_room > 0
    }

    pub(crate) fn outcome(&self, rng: &mut Rng, action: Action) -> CallOutcome {
        let quick = CallOutcome {
            before: Duration::ZERO,
            delivery: Delivery::Now,
            after: Duration::ZERO,
            response: Response::Answer,
        };
        let slow = rng.per_mille(self.slow);
        let (before, after) = if slow { (some_time(rng), some_time(rng)) } else { (quick.before, quick.after) };
        let outcome = CallOutcome { before, after, ..quick };
        let unclear = |rng: &mut Rng, delivery| {
            let after = if rng.per_mille(500) { Duration::ZERO } else { some_time(rng) };
            CallOutcome { before, delivery, after, response: Response::Unclear }
        };
        if rng.per_mille(self.throttled) {
            return CallOutcome { delivery: Delivery::Never, response: Response::Throttled, ..outcome };
        }
        if rng.per_mille(self.denied) {
            return CallOutcome { delivery: Delivery::Never, response: Response::Denied, ..outcome };
        }
        if rng.per_mille(self.not_sent) {
            return CallOutcome { delivery: Delivery::Never, response: Response::NotSent, ..outcome };
        }
        if rng.per_mille(self.lost_request) {
            return unclear(rng, Delivery::Never);
        }
        if rng.per_mille(self.lost_reply) {
            return unclear(rng, Delivery::Now);
        }
        if action.mutates() && rng.per_mille(self.late) && !self.latest.is_zero() {
            let late = rng.millis(0, u64::try_from(self.latest.as_millis()).unwrap_or(0));
            return unclear(rng, Delivery::Late(late));
        }
        if action == Action::CreateVolume && rng.per_mille(self.no_room) {
            return CallOutcome { delivery: Delivery::Never, response: Response::NoRoom, ..outcome };
        }
        if action == Action::CreateVolume && rng.per_mille(self.no_key) {
            return CallOutcome { delivery: Delivery::Never, response: Response::NoKey, ..outcome };
        }
        outcome
    }

    /// Whether a dry run is throttled.
    pub(crate) fn throttles_a_dry_run(&self, rng: &mut Rng) -> bool {
        rng.per_mille(self.no_dry_run)
    }

    /// Whether a call does not know yet what has been there for so long.
    pub(crate) fn is_behind(&self, rng: &mut Rng, age: Duration) -> bool {
        age < self.max_lag && rng.per_mille(self.behind)
    }

    /// Whether a volume that is being made breaks.
    pub(crate) fn breaks(&self, rng: &mut Rng) -> bool {
        rng.per_mille(self.broken)
    }
}

/// Mostly seconds, sometimes minutes: longer than any deadline of an RPC.
fn some_time(rng: &mut Rng) -> Duration {
    match rng.below(10) {
        0..=5 => rng.millis(20, 3_000),
        6..=8 => rng.millis(3_000, 40_000),
        _ => rng.millis(40_000, 240_000),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Late effects and lagging reads together stay within the 15 s after which the driver believes a describe, in every run of the model.
    #[test]
    fn late_effects_and_lagging_reads_together_stay_within_the_time_to_settle() {
        for seed in 0..500 {
            let fault_plan = FaultPlan::draw(&mut Rng::new(seed));
            assert!(fault_plan.latest + fault_plan.max_lag <= SETTLE, "{seed}: {fault_plan:?}");
        }
    }
}
