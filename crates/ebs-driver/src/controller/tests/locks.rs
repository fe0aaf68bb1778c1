//! Snapshots that are locked already when a repeated request asks for their lock.

use ebs_ec2::ErrorClass;
use ebs_sim::api::{Call, LockSnapshot, Reply, SimSnapshotLock, UnlockSnapshot};

use super::snapshots::take;
use super::*;

const COMPLIANCE: [(&str, &str); 3] = [("lockMode", "compliance"), ("lockDuration", "7"), ("lockCoolOffPeriod", "1")];
const GOVERNANCE: [(&str, &str); 2] = [("lockMode", "governance"), ("lockDuration", "3")];
const HOUR: Duration = Duration::from_hours(1);

/// A world in which a snapshot takes six hours, and a volume in it.
async fn world() -> (World, String) {
    let world = World::start().await;
    world.ec2.declare(ebs_sim::iam::Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    let slow = ebs_sim::engine::TimingOverride { snapshot_ms: Some(6 * 3_600_000), ..Default::default() };
    world.ec2.engine().set_timing(slow).await;
    (world, volume)
}

/// The only lock there is, as EC2 has it.
async fn lock(world: &World) -> SimSnapshotLock {
    let reply = world.ec2.by_test().engine().call(Call::DescribeLockedSnapshots(Default::default())).await;
    let Ok(Reply::DescribeLockedSnapshots(page)) = reply else { panic!("{reply:?}") };
    let [lock] = page.items.as_slice() else { panic!("{page:?}") };
    lock.clone()
}

/// What an administrator makes of the lock.
async fn lock_by_hand(world: &World, snapshot: &str, mode: &str, days: i64) {
    let call = LockSnapshot {
        snapshot_id: snapshot.to_owned(),
        lock_mode: Some(mode.to_owned()),
        lock_duration: Some(days),
        ..LockSnapshot::default()
    };
    world.ec2.by_test().engine().call(Call::LockSnapshot(call)).await.expect("it can be locked so");
}

pub(super) async fn unlock_by_hand(world: &World, snapshot: &str) {
    let call = UnlockSnapshot { snapshot_id: snapshot.to_owned(), ..UnlockSnapshot::default() };
    world.ec2.by_test().engine().call(Call::UnlockSnapshot(call)).await.expect("it can be unlocked");
}

/// The number of LockSnapshot calls of the drivers.
fn calls(world: &World) -> usize {
    world.ec2.count(Action::LockSnapshot)
}

/// EC2 refuses a cooling-off period for a snapshot whose cooling-off period is over.
#[tokio::test(start_paused = true)]
async fn a_compliance_lock_is_done_after_its_cooling_off_period() {
    let (mut world, volume) = world().await;
    take(&world, "snapshot-1", &volume, &COMPLIANCE).await.expect("taken, and pending");
    world.replace_driver();
    for ready in [false, true] {
        tokio::time::sleep(4 * HOUR).await;
        let found = take(&world, "snapshot-1", &volume, &COMPLIANCE).await.expect("locked as asked for");
        assert_eq!(found.ready_to_use, ready);
    }
    assert_eq!(calls(&world), 1);
}

/// A repeated LockSnapshot would begin the cooling-off period anew.
#[tokio::test(start_paused = true)]
async fn a_cooling_off_period_is_not_begun_again() {
    let (mut world, volume) = world().await;
    let class = [COMPLIANCE[0], COMPLIANCE[1], ("lockCoolOffPeriod", "5")];
    take(&world, "snapshot-1", &volume, &class).await.expect("taken");
    let until = lock(&world).await.cool_off_expires;
    world.replace_driver();
    tokio::time::sleep(2 * HOUR).await;
    take(&world, "snapshot-1", &volume, &class).await.expect("locked as asked for");
    assert_eq!((lock(&world).await.cool_off_expires, calls(&world)), (until, 1));
}

/// EC2 refuses an end that is less than a day away, also where it is the end that the lock has.
#[tokio::test(start_paused = true)]
async fn a_lock_whose_end_is_near_or_over_is_done() {
    let (mut world, volume) = world().await;
    let now = SystemTime::now();
    let end = humantime::format_rfc3339_seconds(now + 30 * HOUR).to_string();
    let class = [("lockMode", "governance"), ("lockExpirationDate", end.as_str())];
    take(&world, "snapshot-1", &volume, &class).await.expect("taken");
    for hours in [20, 12] {
        tokio::time::sleep(hours * HOUR).await;
        let later = world.ec2.engine().now();
        (world.service, world.operations) = driver_over(&world.ec2, Some(later));
        let found = take(&world, "snapshot-1", &volume, &class).await.expect("it was locked until then");
        assert!(found.ready_to_use);
    }
    assert_eq!(calls(&world), 1);
    let refusal = take(&world, "snapshot-2", &volume, &class).await;
    refused(refusal.map(drop), "InvalidArgument", &end);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_an_administrator_prolonged_stays() {
    let (mut world, volume) = world().await;
    let id = take(&world, "snapshot-1", &volume, &GOVERNANCE).await.expect("taken").snapshot_id;
    lock_by_hand(&world, &id, "governance", 30).await;
    world.replace_driver();
    take(&world, "snapshot-1", &volume, &GOVERNANCE).await.expect("locked for longer than asked for");
    assert_eq!((lock(&world).await.duration_days, calls(&world)), (30, 1));
    // A mode that is stricter than asked for is as good.
    lock_by_hand(&world, &id, "compliance", 30).await;
    world.replace_driver();
    take(&world, "snapshot-1", &volume, &GOVERNANCE).await.expect("locked more strictly than asked for");
    assert_eq!(calls(&world), 1);
}

/// What is weaker than asked for is no lock as asked for.
#[tokio::test(start_paused = true)]
async fn a_lock_that_is_weaker_is_made_as_asked_for() {
    for (mode, days) in [("governance", 7), ("compliance", 2), ("none", 0)] {
        let (mut world, volume) = world().await;
        let id = take(&world, "snapshot-1", &volume, &COMPLIANCE).await.expect("taken").snapshot_id;
        unlock_by_hand(&world, &id).await;
        match mode {
            "none" => {}
            mode => lock_by_hand(&world, &id, mode, days).await,
        }
        world.replace_driver();
        let class = [COMPLIANCE[0], COMPLIANCE[1]];
        take(&world, "snapshot-1", &volume, &class).await.expect("locked");
        let lock = lock(&world).await;
        assert_eq!((lock.state.as_str(), lock.duration_days, calls(&world)), ("compliance", 7, 2), "{mode} {days}");
    }
}

/// AWS's own policy does not give the right to look: then EC2 is asked to lock the snapshot once more, as before.
#[tokio::test(start_paused = true)]
async fn without_the_right_to_look_a_snapshot_is_locked_again() {
    let (mut world, volume) = world().await;
    take(&world, "snapshot-1", &volume, &GOVERNANCE).await.expect("taken");
    world.replace_driver();
    world.ec2.fail_next(Action::DescribeLockedSnapshots, ErrorClass::Unauthorized, false);
    take(&world, "snapshot-1", &volume, &GOVERNANCE).await.expect("locked once more");
    assert_eq!(calls(&world), 2);
    world.replace_driver();
    world.ec2.fail_next(Action::DescribeLockedSnapshots, ErrorClass::Unauthorized, false);
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::NotPermitted, false);
    refused(take(&world, "snapshot-1", &volume, &GOVERNANCE).await, "Aborted", "allow ec2:DescribeLockedSnapshots");
}

/// A look that gets no answer says nothing of the lock: nothing is locked and nothing is deleted on its account.
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_seen_is_left_alone() {
    let (world, volume) = world().await;
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, true);
    refused(take(&world, "snapshot-1", &volume, &GOVERNANCE).await, "Aborted", "lock snapshot");
    for class in [ErrorClass::Unauthenticated, ErrorClass::SnapshotNotFound, ErrorClass::Other] {
        world.ec2.fail_next(Action::DescribeLockedSnapshots, class, false);
        refused(take(&world, "snapshot-1", &volume, &GOVERNANCE).await, "Aborted", "look at the lock");
    }
    take(&world, "snapshot-1", &volume, &GOVERNANCE).await.expect("it was locked");
    assert_eq!((calls(&world), world.ec2.count(Action::DeleteSnapshot)), (1, 0));
}
