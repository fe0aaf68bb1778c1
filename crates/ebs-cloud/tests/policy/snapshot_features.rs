//! Fast restores, locks and Outposts of snapshots, with one driver process and with two.

use ebs_cloud::{CloudErrorKind, Lock, LockEnd, LockMode, SnapshotFeatures, SnapshotSpec};
use ebs_ec2::{Action, ConnectionId, ErrorClass, Limit, SnapshotId};
use ebs_sim::api::{Call, UnlockSnapshot};
use ebs_sim::engine::{EngineConfig, Timing};
use ebs_sim::iam::Extra;

use crate::fixture::{Fixture, assert_error, message_of, snapshot_spec, zone};

async fn snapshot(fixture: &Fixture) -> SnapshotId {
    let volume = fixture.volume("pvc-1").await;
    let made = fixture.snapshot(&snapshot_spec("snap-a", &volume.id)).await;
    fixture.pass(1).await;
    made.expect("a plain snapshot can be taken").id
}

fn fast_restores(zones: &[&str]) -> SnapshotFeatures {
    SnapshotFeatures { fast_restore_zones: zones.iter().map(|name| zone(name)).collect(), ..Default::default() }
}

#[tokio::test(start_paused = true)]
async fn each_process_enables_fast_restores_once() {
    let (mut fixture, volume) = Fixture::with_volume().await;
    let (spec, features) = (snapshot_spec("snap-a", &volume), fast_restores(&["us-west-2a", "us-west-2b"]));
    for calls in [1, 2] {
        for _ in 0..2 {
            fixture.ensure(&spec, &features).await.unwrap();
            assert_eq!(fixture.count(Action::EnableFastSnapshotRestores), calls);
        }
        fixture.restart();
    }
}

#[tokio::test(start_paused = true)]
async fn unknown_fast_restore_zone_is_refused_before_the_snapshot() {
    let (fixture, volume) = Fixture::with_volume().await;
    let before = fixture.mutations();
    let features = fast_restores(&["us-west-2a", "us-east-9z"]);
    let outcome = fixture.ensure(&snapshot_spec("snap-a", &volume), &features).await;
    let message = message_of(&assert_error(outcome, CloudErrorKind::InvalidArgument));
    assert!(message.contains("us-east-9z") && !message.contains("us-west-2a"), "{message}");
    assert_eq!(fixture.mutations(), before);
}

/// If the driver may not list the zones, only EC2 can check the requested zones. The snapshot cannot be deleted,
/// because fast restores are enabled in one zone.
#[tokio::test(start_paused = true)]
async fn error_names_the_zone_without_fast_restores() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.sim.fail_next(Action::DescribeAvailabilityZones, ErrorClass::Unauthorized, false);
    let features = fast_restores(&["us-west-2a", "us-east-9z", "us-east-9y"]);
    let outcome = fixture.ensure(&snapshot_spec("snap-a", &volume), &features).await;
    let text = assert_error(outcome, CloudErrorKind::OutcomeUnknown).to_string();
    assert!(text.contains("us-east-9z: ") && text.contains("us-east-9y: ") && !text.contains("us-west-2a: "), "{text}");
}

#[tokio::test(start_paused = true)]
async fn snapshot_that_is_locked_or_in_use_is_not_deleted() {
    let (fixture, volume) = Fixture::with_volume().await;
    let id = fixture.ensure(&snapshot_spec("snap-a", &volume), &governance()).await.unwrap().id;
    assert_error(fixture.delete_snapshot(&id).await, CloudErrorKind::FailedPrecondition);
    fixture.sim.fail_next(Action::DeleteSnapshot, ErrorClass::SnapshotInUse, false);
    assert_error(fixture.delete_snapshot(&id).await, CloudErrorKind::FailedPrecondition);
}

/// A snapshot counts as new even if the answer to its creation was lost. The lock of any other snapshot is described
/// first.
#[tokio::test(start_paused = true)]
async fn new_snapshot_is_locked_without_a_describe() {
    let (mut fixture, volume) = Fixture::with_volume().await;
    fixture.sim.declare(Extra::SnapshotLocks);
    let spec = snapshot_spec("snap-a", &volume);
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, true);
    for describes in [0, 1] {
        fixture.ensure(&spec, &governance()).await.unwrap();
        let calls = (fixture.count(Action::LockSnapshot), fixture.count(Action::DescribeLockedSnapshots));
        assert_eq!(calls, (1, describes));
        assert_eq!((fixture.snapshots().await, fixture.count(Action::CreateSnapshot)), (1, 1));
        fixture.restart();
    }
}

/// A snapshot that is stored in the region does not match the request.
#[tokio::test(start_paused = true)]
async fn local_snapshot_is_requested_with_its_outpost() {
    let (fixture, volume) = Fixture::with_volume().await;
    let outpost = "arn:aws:outposts:us-west-2:123456789012:outpost/op-1";
    let local = SnapshotSpec { outpost_arn: Some(outpost.to_owned()), ..snapshot_spec("snap-a", &volume) };
    // The creation fails because the simulated account has no such Outpost.
    fixture.snapshot(&local).await.unwrap_err();
    let asked = fixture.sim.calls().into_iter().find_map(|c| match c.request {
        Call::CreateSnapshot(request) => request.outpost_arn,
        _ => None,
    });
    assert_eq!(asked.as_deref(), Some(outpost));
    fixture.snapshot(&snapshot_spec("snap-a", &volume)).await.expect("a regional snapshot can be taken");
    assert_error(fixture.snapshot(&local).await, CloudErrorKind::AlreadyExists);
}

#[tokio::test(start_paused = true)]
async fn full_snapshot_quota_is_reported_as_limit_exceeded() {
    let (fixture, volume) = Fixture::with_volume().await;
    for limit in [Limit::Snapshots, Limit::ConcurrentSnapshots] {
        fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::LimitExceeded(limit), false);
        assert_error(fixture.snapshot(&snapshot_spec("snap-a", &volume)).await, CloudErrorKind::LimitExceeded);
    }
}

/// EC2 refuses a second snapshot of the volume during the cooldown.
#[tokio::test(start_paused = true)]
async fn recent_snapshot_of_another_process_is_found() {
    let fixture = Fixture::with(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let theirs = fixture.twin().snapshots.ensure(&spec, &SnapshotFeatures::default(), &fixture.waiters).await.unwrap();
    fixture.ec2.hide_snapshots(14);
    let ours = fixture.snapshot(&spec).await.unwrap();
    assert_eq!((ours.id, fixture.accepted(Action::CreateSnapshot)), (theirs.id, 1));
}

#[tokio::test(start_paused = true)]
async fn snapshot_that_is_not_listed_yet_is_not_deleted() {
    let fixture = Fixture::new().await;
    let id = snapshot(&fixture).await;
    fixture.ec2.hide_snapshots(14);
    fixture.sim.fail_next(Action::DeleteSnapshot, ErrorClass::Ambiguous, false);
    fixture.delete_snapshot(&id).await.unwrap();
    assert!(fixture.sim.engine().snapshot_of_state().await.snapshots.is_empty());
    assert_eq!(fixture.count(Action::DeleteSnapshot), 2);
}

fn governance() -> SnapshotFeatures {
    let lock = Lock { mode: LockMode::Governance, end: LockEnd::Days(3) };
    SnapshotFeatures { lock: Some(lock), ..SnapshotFeatures::default() }
}

/// EC2 refuses the lock after the other process has reported the snapshot.
#[tokio::test(start_paused = true)]
async fn snapshot_that_another_leader_reported_is_not_deleted() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.sim.declare(Extra::SnapshotLocks);
    fixture.serve_alone().await;
    let (spec, features) = (snapshot_spec("snap-a", &volume), governance());
    fixture.sim.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, false);
    assert_error(fixture.ensure(&spec, &features).await, CloudErrorKind::OutcomeUnknown);
    fixture.pass(20).await;
    let reported = fixture.twin().snapshots.ensure(&spec, &features, &fixture.waiters).await.unwrap();
    fixture.pass(20).await;
    let unlock = UnlockSnapshot { snapshot_id: reported.id.to_string(), ..UnlockSnapshot::default() };
    fixture.sim.engine().call(Call::UnlockSnapshot(unlock)).await.expect("a permitted user can unlock it");
    fixture.connect(ConnectionId::unique());
    fixture.sim.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    let error = fixture.ensure(&spec, &features).await.unwrap_err();
    assert_eq!((error.kind.clone(), fixture.snapshots().await), (CloudErrorKind::OutcomeUnknown, 1), "{error:?}");
}

/// Right after EC2 took a snapshot, some EC2 calls may not find it yet.
#[tokio::test(start_paused = true)]
async fn snapshot_that_ec2_cannot_find_to_lock_is_not_deleted() {
    for action in [Action::LockSnapshot, Action::EnableFastSnapshotRestores] {
        let (fixture, volume) = Fixture::with_volume().await;
        fixture.serve_alone().await;
        let features = SnapshotFeatures { fast_restore_zones: vec![zone("us-west-2a")], ..governance() };
        fixture.sim.fail_next(action, ErrorClass::SnapshotNotFound, false);
        let spec = snapshot_spec("snap-a", &volume);
        assert_error(fixture.ensure(&spec, &features).await, CloudErrorKind::OutcomeUnknown);
        assert_eq!((fixture.snapshots().await, fixture.count(Action::DeleteSnapshot)), (1, 0), "{action}");
    }
}

/// A VolumeSnapshotClass without `outpostArn` allows any storage location.
#[tokio::test(start_paused = true)]
async fn local_snapshot_matches_a_request_without_an_outpost() {
    let (fixture, volume) = Fixture::with_volume().await;
    let id = snapshot(&fixture).await;
    fixture.ec2.override_snapshots(|snapshots| {
        let outpost = "arn:aws:outposts:us-west-2:123456789012:outpost/op-1";
        snapshots.iter_mut().for_each(|s| s.outpost_arn = Some(outpost.to_owned()));
    });
    let found = fixture.snapshot(&snapshot_spec("snap-a", &volume)).await;
    assert_eq!(found.unwrap().id, id);
}
