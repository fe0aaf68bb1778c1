//! Tests of LockSnapshot, UnlockSnapshot and DescribeLockedSnapshots.

use super::*;
use crate::api::SimSnapshotLock;

fn lock(snapshot: &str, mode: &str, days: i64) -> String {
    format!("LockSnapshot SnapshotId={snapshot} LockMode={mode} LockDuration={days}")
}

fn delete(snapshot: &str) -> String {
    format!("DeleteSnapshot SnapshotId={snapshot}")
}

fn unlock(snapshot: &str) -> String {
    format!("UnlockSnapshot SnapshotId={snapshot}")
}

impl World {
    fn lock(&mut self, call: &str) -> SimSnapshotLock {
        match self.call(call) {
            Ok(Reply::LockSnapshot(lock)) => lock,
            other => panic!("{call}: {other:?}"),
        }
    }

    fn locks(&mut self) -> Vec<String> {
        ok!(self, DescribeLockedSnapshots).items.into_iter().map(|lock| lock.state).collect()
    }

    fn completed_snapshot(&mut self) -> String {
        let volume = self.gp3();
        self.snapshot(&volume)
    }
}

#[test]
fn locked_snapshot_is_not_deletable_before_expiry() {
    let mut world = World::instant();
    let id = world.completed_snapshot();
    let made = world.lock(&lock(&id, "governance", 2));
    assert_eq!((made.state.as_str(), made.duration_days, made.expires), ("governance", 2, world.now + DAY * 2));
    assert_eq!(world.refused(&delete(&id)), "SnapshotLocked");
    world.pass(DAY * 2);
    assert_eq!(ok!(world, DescribeLockedSnapshots, "{}", by("lock-state", "expired")).items.len(), 1);
    world.done(&delete(&id));
    assert!(world.locks().is_empty());
}

#[test]
fn compliance_lock_can_only_be_extended_after_cooling_off() {
    let mut world = World::instant();
    let id = world.completed_snapshot();
    let cooling = lock(&id, "compliance", 10) + " CoolOffPeriod=3";
    let made = world.lock(&cooling);
    assert_eq!((made.state.as_str(), made.cool_off_hours), ("compliance-cooloff", Some(3)));
    assert_eq!(world.lock(&lock(&id, "governance", 1)).state, "governance");
    world.lock(&cooling);
    world.pass(HOUR * 3);
    assert_eq!(world.locks(), ["compliance"]);
    world.refuses([
        (lock(&id, "governance", 20), "OperationNotPermitted"),
        (lock(&id, "compliance", 9), "OperationNotPermitted"),
        (cooling + " LockDuration=20", "InvalidParameterCombination"),
    ]);
    assert_eq!(world.lock(&lock(&id, "compliance", 20)).duration_days, 20);
}

/// UnlockSnapshot removes a lock in governance mode or in its cooling-off period, and no other.
#[test]
fn unlock_fails_for_compliance_lock_after_cooling_off() {
    let mut world = World::instant();
    let id = world.completed_snapshot();
    assert_eq!(world.refused(&unlock(&id)), "IncorrectState", "it has no lock yet");
    let cooling = lock(&id, "compliance", 10) + " CoolOffPeriod=3";
    for locked in [&lock(&id, "governance", 2), &cooling] {
        world.lock(locked);
        assert_eq!(world.call(&unlock(&id)), Ok(Reply::UnlockSnapshot(id.clone())));
        assert!(world.locks().is_empty());
    }
    world.lock(&cooling);
    assert_eq!(world.refused(&(unlock(&id) + " DryRun=true")), "DryRunOperation");
    world.pass(HOUR * 3);
    assert_eq!(world.refused(&unlock(&id)), "OperationNotPermitted", "its cooling-off period is over");
    world.pass(DAY * 10);
    world.refuses([
        (unlock(&id), "IncorrectState"),
        (unlock("snap-00000000000000000"), "InvalidSnapshot.NotFound"),
        (unlock("vol-1"), "InvalidParameterValue"),
    ]);
}

#[test]
fn lock_of_pending_snapshot_starts_at_completion() {
    let mut world = World::realistic();
    let (volume, _) = world.ready();
    let id = world.snapshot(&volume);
    world.lock(&lock(&id, "governance", 1));
    world.pass(secs(20));
    assert_eq!(ok!(world, DescribeLockedSnapshots).items[0].duration_start, world.now);
}

/// A lock needs a mode, and either a duration or an expiration date. Both have limits.
#[test]
fn invalid_lock_is_rejected() {
    let mut world = World::instant();
    let id = world.completed_snapshot();
    let date = |date: &str| lock(&id, "governance", 1) + " !LockDuration ExpirationDate=" + date;
    let expires = date(&humantime::format_rfc3339(world.now + DAY * 3).to_string());
    assert_eq!(world.lock(&expires).duration_days, 3);
    world.refuses([
        (lock(&id, "", 1), "MissingParameter"),
        (lock(&id, "governance", 0), "InvalidParameterValue"),
        (lock(&id, "governance", 36_501), "InvalidParameterValue"),
        (lock(&id, "governance", 1) + " CoolOffPeriod=1", "InvalidParameterCombination"),
        (lock(&id, "compliance", 1) + " CoolOffPeriod=73", "InvalidParameterValue"),
        (lock(&id, "governance", 1) + " !LockDuration", "MissingParameter"),
        (date("tomorrow"), "InvalidParameterValue"),
        (date("1999-01-01T00:00:00Z"), "InvalidParameterValue"),
        (lock(&id, "governance", 1) + " DryRun=true", "DryRunOperation"),
    ]);
}
