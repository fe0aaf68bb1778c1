//! Tests repeated requests for a snapshot that is already locked.

use ebs_ec2::ErrorClass;
use ebs_sim::api::{Call, LockSnapshot, Reply, SimSnapshotLock, UnlockSnapshot};

use super::*;

const COMPLIANCE: [(&str, &str); 3] = [("lockMode", "compliance"), ("lockDuration", "7"), ("lockCoolOffPeriod", "1")];
const GOVERNANCE: [(&str, &str); 2] = [("lockMode", "governance"), ("lockDuration", "3")];
const HOUR: Duration = Duration::from_hours(1);

/// Returns a world that has a volume and in which a snapshot takes six hours to complete.
async fn world() -> (World, String) {
    let world = World::start().await;
    world.ec2.declare(ebs_sim::iam::Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    world.timing(TimingOverride { snapshot_ms: Some(6 * 3_600_000), ..Default::default() }).await;
    (world, volume)
}

/// Returns the world's only snapshot lock, as EC2 describes it.
async fn lock(world: &World) -> SimSnapshotLock {
    let reply = world.ec2.by_test().engine().call(Call::DescribeLockedSnapshots(Default::default())).await;
    let Ok(Reply::DescribeLockedSnapshots(page)) = reply else { panic!("{reply:?}") };
    let [lock] = page.items.as_slice() else { panic!("{page:?}") };
    lock.clone()
}

/// Changes the lock as an administrator would.
async fn lock_by_hand(world: &World, snapshot: &str, mode: &str, days: i64) {
    let (snapshot_id, lock_mode, lock_duration) = (snapshot.to_owned(), Some(mode.to_owned()), Some(days));
    let call = LockSnapshot { snapshot_id, lock_mode, lock_duration, ..LockSnapshot::default() };
    world.ec2.by_test().engine().call(Call::LockSnapshot(call)).await.expect("it can be locked so");
}

pub(super) async fn unlock_by_hand(world: &World, snapshot: &str) {
    let call = UnlockSnapshot { snapshot_id: snapshot.to_owned(), ..UnlockSnapshot::default() };
    world.ec2.by_test().engine().call(Call::UnlockSnapshot(call)).await.expect("it can be unlocked");
}

/// Returns the number of LockSnapshot calls by all drivers.
fn calls(world: &World) -> usize {
    world.ec2.count(Action::LockSnapshot)
}

/// A repeated LockSnapshot would restart the cooling-off period. EC2 rejects a cooling-off period for a snapshot whose
/// cooling-off period is over.
#[tokio::test(start_paused = true)]
async fn repeated_request_does_not_restart_the_cooling_off_period() {
    let (mut world, volume) = world().await;
    let class = [COMPLIANCE[0], COMPLIANCE[1], ("lockCoolOffPeriod", "3")];
    world.take("snapshot-1", &volume, &class).await.expect("taken, and pending");
    let until = lock(&world).await.cool_off_expires;
    world.replace_driver();
    for (hours, ready) in [(2, false), (2, false), (4, true)] {
        tokio::time::sleep(hours * HOUR).await;
        let found = world.take("snapshot-1", &volume, &class).await.expect("locked as asked for");
        assert_eq!((found.ready_to_use, lock(&world).await.cool_off_expires), (ready, until));
    }
    assert_eq!(calls(&world), 1);
}

/// EC2 rejects a lock that ends in less than a day, even if the existing lock ends at the same time. A new driver
/// process and the one that made the lock both accept the existing lock.
#[tokio::test(start_paused = true)]
async fn existing_lock_with_a_near_or_past_end_is_accepted() {
    for restarts in [true, false] {
        let (mut world, volume) = world().await;
        world.restart();
        let end = humantime::format_rfc3339_seconds(world.ec2.engine().now() + 30 * HOUR).to_string();
        let class = [("lockMode", "governance"), ("lockExpirationDate", end.as_str())];
        world.take("snapshot-1", &volume, &class).await.expect("taken");
        for hours in [20, 12] {
            tokio::time::sleep(hours * HOUR).await;
            if restarts {
                world.restart();
            }
            let found = world.take("snapshot-1", &volume, &class).await.expect("it was locked until then");
            assert!(found.ready_to_use);
        }
        assert_eq!(calls(&world), 1);
        refused(world.take("snapshot-2", &volume, &class).await, "InvalidArgument", &end);
        assert_eq!(world.snapshots().await, 1);
    }
}

/// The driver also keeps a lock with a stricter mode than the requested one.
#[tokio::test(start_paused = true)]
async fn lock_that_an_administrator_extended_is_kept() {
    let (mut world, volume) = world().await;
    let id = world.take("snapshot-1", &volume, &GOVERNANCE).await.expect("taken").snapshot_id;
    for mode in ["governance", "compliance"] {
        lock_by_hand(&world, &id, mode, 30).await;
        world.replace_driver();
        world.take("snapshot-1", &volume, &GOVERNANCE).await.expect("locked for longer than asked for");
        assert_eq!((lock(&world).await.duration_days, calls(&world)), (30, 1), "{mode}");
    }
}

/// A weaker lock does not fulfil the request.
#[tokio::test(start_paused = true)]
async fn weaker_lock_is_replaced_by_the_requested_one() {
    for by_hand in [Some(("governance", 7)), Some(("compliance", 2)), None] {
        let (mut world, volume) = world().await;
        let id = world.take("snapshot-1", &volume, &COMPLIANCE).await.expect("taken").snapshot_id;
        unlock_by_hand(&world, &id).await;
        if let Some((mode, days)) = by_hand {
            lock_by_hand(&world, &id, mode, days).await;
        }
        world.replace_driver();
        world.take("snapshot-1", &volume, &COMPLIANCE[..2]).await.expect("locked");
        let lock = lock(&world).await;
        assert_eq!((lock.state.as_str(), lock.duration_days, calls(&world)), ("compliance", 7, 2), "{by_hand:?}");
    }
}

/// AWS's managed policy does not permit DescribeLockedSnapshots. The driver then calls LockSnapshot again.
#[tokio::test(start_paused = true)]
async fn snapshot_is_locked_again_without_permission_to_describe() {
    let (mut world, volume) = world().await;
    world.take("snapshot-1", &volume, &GOVERNANCE).await.expect("taken");
    world.replace_driver();
    world.ec2.fail_next(Action::DescribeLockedSnapshots, ErrorClass::Unauthorized, false);
    world.take("snapshot-1", &volume, &GOVERNANCE).await.expect("locked again");
    assert_eq!(calls(&world), 2);
    world.replace_driver();
    world.ec2.fail_next(Action::DescribeLockedSnapshots, ErrorClass::Unauthorized, false);
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::NotPermitted, false);
    let again = world.take("snapshot-1", &volume, &GOVERNANCE).await;
    refused(again, "Aborted", "allow ec2:DescribeLockedSnapshots");
}

/// A failed describe proves nothing about the lock, so the driver changes and deletes nothing.
#[tokio::test(start_paused = true)]
async fn lock_that_cannot_be_described_is_not_changed() {
    let (world, volume) = world().await;
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, true);
    refused(world.take("snapshot-1", &volume, &GOVERNANCE).await, "Aborted", "lock snapshot");
    for class in [ErrorClass::Unauthenticated, ErrorClass::SnapshotNotFound, ErrorClass::Other] {
        world.ec2.fail_next(Action::DescribeLockedSnapshots, class, false);
        refused(world.take("snapshot-1", &volume, &GOVERNANCE).await, "Aborted", "describe the lock");
    }
    world.take("snapshot-1", &volume, &GOVERNANCE).await.expect("it was locked");
    assert_eq!((calls(&world), world.ec2.count(Action::DeleteSnapshot)), (1, 0));
}
