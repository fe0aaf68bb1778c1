//! Compares a snapshot's lock with the requested one, to decide whether the driver must lock the snapshot.
//!
//! A blind repetition of LockSnapshot would revert an administrator's extension and restart a cooling-off period. Once
//! a compliance lock has begun, EC2 refuses a cooling-off period, and an end that is less than a day away.

use std::time::{Duration, SystemTime};

use ebs_ec2::{LockState, SnapshotLock};

use crate::{Lock, LockEnd, LockMode};

const DAY: Duration = Duration::from_hours(24);
/// The tolerance for times that EC2 truncates.
const ROUNDING: Duration = Duration::from_secs(1);

/// Returns true if the lock is at least as strong and as long as `wanted`, or was before it expired.
pub(super) fn is_as_strong(lock: &SnapshotLock, wanted: &Lock) -> bool {
    has_mode(lock, &wanted.mode) && lasts(lock, &wanted.end)
}

fn has_mode(lock: &SnapshotLock, wanted: &LockMode) -> bool {
    match (&lock.state, wanted) {
        (LockState::Other(_), _) | (LockState::Governance, LockMode::Compliance { .. }) => false,
        (LockState::ComplianceCoolOff, LockMode::Compliance { cool_off_hours }) => {
            let left = lock.cool_off_hours.zip(*cool_off_hours);
            left.is_some_and(|(has, wanted)| has <= wanted)
        }
        // EC2 no longer shows the mode of an expired lock.
        (LockState::Compliance | LockState::Expired, _)
        | (LockState::Governance | LockState::ComplianceCoolOff, LockMode::Governance) => true,
    }
}

fn lasts(lock: &SnapshotLock, wanted: &LockEnd) -> bool {
    match wanted {
        LockEnd::At(end) => lock.expires.is_some_and(|expires| expires + ROUNDING >= *end),
        LockEnd::Days(days) => match (lock.duration_days, lock.counts_from, lock.expires) {
            (Some(has), ..) => has >= *days,
            (None, Some(from), Some(expires)) => is_at_least(from, expires, DAY * *days),
            _ => false,
        },
    }
}

fn is_at_least(from: SystemTime, to: SystemTime, wanted: Duration) -> bool {
    to.duration_since(from).is_ok_and(|lasts| lasts + ROUNDING >= wanted)
}

#[cfg(test)]
mod tests {
    use ebs_ec2::SnapshotId;

    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn lock(state: LockState) -> SnapshotLock {
        SnapshotLock {
            snapshot: SnapshotId::parse("snap-1").unwrap(),
            state,
            cool_off_hours: Some(4),
            duration_days: Some(10),
            counts_from: Some(NOW),
            expires: Some(NOW + 10 * DAY),
        }
    }

    fn compliance(cool_off_hours: Option<u32>) -> LockMode {
        LockMode::Compliance { cool_off_hours }
    }

    #[test]
    fn stronger_lock_mode_satisfies_a_weaker_request() {
        use LockState::{Compliance, ComplianceCoolOff, Expired, Governance, Other};
        for (state, mode, is_done) in [
            (Governance, LockMode::Governance, true),
            (ComplianceCoolOff, LockMode::Governance, true),
            (Compliance, LockMode::Governance, true),
            (Expired, LockMode::Governance, true),
            (Governance, compliance(Some(4)), false),
            (Governance, compliance(None), false),
            (ComplianceCoolOff, compliance(Some(4)), true),
            (ComplianceCoolOff, compliance(Some(5)), true),
            (ComplianceCoolOff, compliance(Some(3)), false),
            (ComplianceCoolOff, compliance(None), false),
            (Compliance, compliance(Some(3)), true),
            (Compliance, compliance(None), true),
            (Expired, compliance(None), true),
            (Other("new".to_owned()), LockMode::Governance, false),
        ] {
            let wanted = Lock { mode, end: LockEnd::Days(10) };
            assert_eq!(is_as_strong(&lock(state.clone()), &wanted), is_done, "{state:?} for {wanted:?}");
        }
    }

    #[test]
    fn later_lock_end_satisfies_an_earlier_request() {
        let at = |time: Duration| LockEnd::At(NOW + time);
        let second = Duration::from_secs(1);
        for (end, is_done) in [
            (LockEnd::Days(9), true),
            (LockEnd::Days(10), true),
            (LockEnd::Days(11), false),
            (at(9 * DAY), true),
            (at(10 * DAY), true),
            (at(10 * DAY + second), true),
            (at(10 * DAY + 2 * second), false),
        ] {
            let wanted = Lock { mode: LockMode::Governance, end };
            assert_eq!(is_as_strong(&lock(LockState::Governance), &wanted), is_done, "{wanted:?}");
            let undated = SnapshotLock { duration_days: None, ..lock(LockState::Expired) };
            assert_eq!(is_as_strong(&undated, &wanted), is_done, "without a number of days: {wanted:?}");
            let unknown = SnapshotLock { expires: None, ..undated };
            assert!(!is_as_strong(&unknown, &wanted), "nothing is known of the end");
        }
    }
}
