//! LockSnapshot, UnlockSnapshot and DescribeLockedSnapshots.

use super::*;
use crate::api::{DeleteSnapshot, DescribeLockedSnapshots, LockSnapshot, SimSnapshotLock, UnlockSnapshot};

const DAY: Duration = Duration::from_hours(24);

fn lock(snapshot: &str, mode: &str, days: i64) -> LockSnapshot {
    LockSnapshot {
        snapshot_id: snapshot.to_owned(),
        lock_mode: Some(mode.to_owned()),
        lock_duration: Some(days),
        ..Default::default()
    }
}

fn delete(snapshot: &str) -> Call {
    Call::DeleteSnapshot(DeleteSnapshot { snapshot_id: snapshot.to_owned(), dry_run: false })
}

fn unlock(snapshot: &str) -> Call {
    Call::UnlockSnapshot(UnlockSnapshot { snapshot_id: snapshot.to_owned(), dry_run: false })
}

impl World {
    fn lock(&mut self, call: LockSnapshot) -> Result<SimSnapshotLock, String> {
        match self.call(Call::LockSnapshot(call)) {
            Ok(Reply::LockSnapshot(lock)) => Ok(lock),
            Ok(other) => panic!("{other:?}"),
            Err(fault) => Err(fault.code),
        }
    }

    fn locks(&mut self, states: &[&str]) -> Vec<SimSnapshotLock> {
        let filters = states.iter().map(|s| filter_of("lock-state", &[s])).collect();
        match self.call(Call::DescribeLockedSnapshots(DescribeLockedSnapshots { filters, ..Default::default() })) {
            Ok(Reply::DescribeLockedSnapshots(listing)) => listing.items,
            other => panic!("{other:?}"),
        }
    }

    fn locked_snapshot(&mut self) -> String {
        let volume = self.gp3();
        self.snapshot(&volume)
    }
}

#[test]
fn locked_snapshot_is_not_deletable_before_expiry() {
    let mut world = World::instant();
    let id = world.locked_snapshot();
    let made = world.lock(lock(&id, "governance", 2)).unwrap();
    assert_eq!((made.state.as_str(), made.duration_days, made.expires), ("governance", 2, world.now + DAY * 2));
    assert_eq!(world.refused(delete(&id)), "SnapshotLocked");
    world.pass(DAY * 2);
    assert_eq!(world.locks(&["expired"])[0].state, "expired");
    assert!(world.call(delete(&id)).is_ok());
    assert_eq!(world.locks(&[]), []);
}

#[test]
fn compliance_lock_is_only_extendable_after_cooling_off() {
    let mut world = World::instant();
    let id = world.locked_snapshot();
    let cooling = LockSnapshot { cool_off_period: Some(3), ..lock(&id, "compliance", 10) };
    let made = world.lock(cooling.clone()).unwrap();
    assert_eq!((made.state.as_str(), made.cool_off_hours), ("compliance-cooloff", Some(3)));
    assert_eq!(world.lock(lock(&id, "governance", 1)).unwrap().state, "governance");
    world.lock(cooling.clone()).unwrap();
    world.pass(Duration::from_hours(3));
    assert_eq!(world.locks(&["compliance"]).len(), 1);
    assert_eq!(world.lock(lock(&id, "governance", 20)), Err("OperationNotPermitted".into()));
    assert_eq!(world.lock(lock(&id, "compliance", 9)), Err("OperationNotPermitted".into()));
    assert_eq!(
        world.lock(LockSnapshot { lock_duration: Some(20), ..cooling }),
        Err("InvalidParameterCombination".into())
    );
    assert_eq!(world.lock(lock(&id, "compliance", 20)).unwrap().duration_days, 20);
}

/// UnlockSnapshot removes a lock in governance mode or in its cooling-off period. A compliance lock remains after it
/// (`OperationNotPermitted`).
#[test]
fn unlock_fails_for_compliance_lock_after_cooling_off() {
    let mut world = World::instant();
    let id = world.locked_snapshot();
    assert_eq!(world.refused(unlock(&id)), "IncorrectState", "it has no lock yet");
    let cooling = LockSnapshot { cool_off_period: Some(3), ..lock(&id, "compliance", 10) };
    for locked in [lock(&id, "governance", 2), cooling.clone()] {
        world.lock(locked).unwrap();
        assert_eq!(world.call(unlock(&id)), Ok(Reply::UnlockSnapshot(id.clone())));
        assert_eq!(world.locks(&[]), []);
    }
    world.lock(cooling).unwrap();
    let asked = UnlockSnapshot { snapshot_id: id.clone(), dry_run: true };
    assert_eq!(world.refused(Call::UnlockSnapshot(asked)), "DryRunOperation");
    world.pass(Duration::from_hours(3));
    assert_eq!(world.refused(unlock(&id)), "OperationNotPermitted", "its cooling-off period is over");
    world.pass(DAY * 10);
    assert_eq!(world.refused(unlock(&id)), "IncorrectState", "it has expired");
    assert_eq!(world.refused(unlock("snap-00000000000000000")), "InvalidSnapshot.NotFound");
    assert_eq!(world.refused(unlock("vol-1")), "InvalidParameterValue");
}

#[test]
fn lock_of_pending_snapshot_starts_at_completion() {
    let mut world = World::realistic();
    let volume = world.gp3();
    world.pass(Duration::from_secs(5));
    let id = world.snapshot(&volume);
    world.lock(lock(&id, "governance", 1)).unwrap();
    world.pass(Duration::from_secs(20));
    assert_eq!(world.locks(&[])[0].duration_start, world.now);
}

/// A lock needs a mode and exactly one of duration and expiration, within their ranges.
#[test]
fn invalid_lock_is_rejected() {
    let mut world = World::instant();
    let id = world.locked_snapshot();
    let date = |date: &str| LockSnapshot {
        lock_duration: None,
        expiration_date: Some(date.to_owned()),
        ..lock(&id, "governance", 1)
    };
    let expires = humantime::format_rfc3339(world.now + DAY * 3).to_string();
    assert_eq!(world.lock(date(&expires)).unwrap().duration_days, 3);
    for (call, code) in [
        (LockSnapshot { lock_mode: None, ..lock(&id, "", 1) }, "MissingParameter"),
        (lock(&id, "strict", 1), "InvalidParameterValue"),
        (lock(&id, "governance", 0), "InvalidParameterValue"),
        (lock(&id, "governance", 36_501), "InvalidParameterValue"),
        (LockSnapshot { cool_off_period: Some(1), ..lock(&id, "governance", 1) }, "InvalidParameterCombination"),
        (LockSnapshot { cool_off_period: Some(73), ..lock(&id, "compliance", 1) }, "InvalidParameterValue"),
        (LockSnapshot { lock_duration: None, ..lock(&id, "governance", 1) }, "MissingParameter"),
        (LockSnapshot { lock_duration: Some(1), ..date(&expires) }, "InvalidParameterCombination"),
        (date("tomorrow"), "InvalidParameterValue"),
        (date("1999-01-01T00:00:00Z"), "InvalidParameterValue"),
        (lock("snap-00000000000000000", "governance", 1), "InvalidSnapshot.NotFound"),
        (LockSnapshot { dry_run: true, ..lock(&id, "governance", 1) }, "DryRunOperation"),
    ] {
        assert_eq!(world.refused(Call::LockSnapshot(call.clone())), code, "{call:?}");
    }
}
