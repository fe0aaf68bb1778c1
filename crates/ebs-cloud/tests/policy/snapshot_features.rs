//! Fast restores, locks, Outposts, and snapshots with another process.

use std::time::Duration;

use ebs_cloud::{
    CloudError, CloudErrorKind, Ensured, Lock, LockEnd, LockMode, LockSnapshot, Object, SnapshotFeatures, SnapshotSpec,
};
use ebs_ec2::{Action, ErrorClass, Limit};
use ebs_sim::api::{Call, UnlockSnapshot};
use ebs_sim::engine::{EngineConfig, Timing};
use ebs_sim::iam::Extra;
use ebs_types::{ConnectionId, SnapshotId};
use tokio::time::Instant;

use crate::fixture::{Fixture, message_of, snapshot_spec, zone};

async fn snapshot(fixture: &Fixture) -> SnapshotId {
    let volume = fixture.volume("pvc-1").await;
    let made = fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters).await;
    fixture.pass(1).await;
    made.expect("a plain snapshot can be taken").into_inner().id
}

fn lock(snapshot: &SnapshotId) -> LockSnapshot {
    LockSnapshot {
        snapshot: snapshot.clone(),
        mode: Some("governance".to_owned()),
        cool_off_hours: None,
        expiration: None,
        duration_days: Some(3),
    }
}

#[tokio::test(start_paused = true)]
async fn fast_restores_are_enabled_in_every_zone_repeatedly() {
    let fixture = Fixture::new().await;
    let id = snapshot(&fixture).await;
    let zones = [zone("us-west-2a"), zone("us-west-2b")];
    fixture.cloud.snapshots.check_fast_restore_zones(&zones).await.unwrap();
    for _ in 0..2 {
        fixture.cloud.snapshots.enable_fast_restores(&id, &zones, &fixture.waiters).await.unwrap();
    }
}

/// If EC2 does not list the zones, EC2 checks them.
#[tokio::test(start_paused = true)]
async fn unknown_zone_is_refused_before_a_snapshot_is_made() {
    let fixture = Fixture::new().await;
    let error =
        fixture.cloud.snapshots.check_fast_restore_zones(&[zone("us-west-2a"), zone("us-east-9z")]).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InvalidArgument), "{error:?}");
    assert!(
        message_of(&error).contains("us-east-9z") && !message_of(&error).contains("us-west-2a"),
        "{}",
        message_of(&error)
    );
    assert_eq!(fixture.mutations(), 0);
    let blind = Fixture::new().await;
    blind.sim.fail_next(Action::DescribeAvailabilityZones, ErrorClass::Unauthorized, false);
    blind.cloud.snapshots.check_fast_restore_zones(&[zone("us-east-9z")]).await.expect("EC2 is left to judge it");
}

#[tokio::test(start_paused = true)]
async fn zone_without_fast_restores_is_in_the_error() {
    let fixture = Fixture::new().await;
    let id = snapshot(&fixture).await;
    let zones = [zone("us-west-2a"), zone("us-east-9z"), zone("us-east-9y")];
    let error = fixture.cloud.snapshots.enable_fast_restores(&id, &zones, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Internal), "{error:?}");
    let text = message_of(&error);
    assert!(text.contains("us-east-9z: ") && text.contains("us-east-9y: ") && !text.contains("us-west-2a: "), "{text}");
}

/// A locked snapshot is not deleted.
#[tokio::test(start_paused = true)]
async fn lock_parameters_are_sent_unchanged() {
    let fixture = Fixture::new().await;
    let id = snapshot(&fixture).await;
    fixture.cloud.snapshots.lock(&lock(&id), &fixture.waiters).await.unwrap();
    let error = fixture.cloud.snapshots.delete(&id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "locked: {error:?}");
    let nonsense = LockSnapshot { mode: Some("nonsense".to_owned()), ..lock(&id) };
    let error = fixture.cloud.snapshots.lock(&nonsense, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InvalidArgument), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn features_of_a_missing_snapshot_are_not_found() {
    let fixture = Fixture::new().await;
    let missing = SnapshotId::parse("snap-0123456789abcdef0").unwrap();
    match fixture.cloud.snapshots.lock(&lock(&missing), &fixture.waiters).await.unwrap_err() {
        CloudError { kind: CloudErrorKind::NotFound(object), .. } => assert_eq!(object, Object::Snapshot(missing)),
        other => panic!("{other:?}"),
    }
}

/// A snapshot with a lost answer counts as created.
#[tokio::test(start_paused = true)]
async fn result_shows_if_the_snapshot_was_created_or_found() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, true);
    let made = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.unwrap();
    assert!(matches!(made, Ensured::Created(_)), "its answer was lost, but it is ours: {made:?}");
    let found = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.unwrap();
    assert!(matches!(found, Ensured::Existing(_)), "{found:?}");
}

/// A snapshot of the region does not match.
#[tokio::test(start_paused = true)]
async fn local_snapshot_is_requested_with_its_outpost() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let outpost = "arn:aws:outposts:us-west-2:123456789012:outpost/op-1";
    let local = SnapshotSpec { outpost_arn: Some(outpost.to_owned()), ..snapshot_spec("snap-a", &volume.id) };
    // The simulated account does not have the Outpost.
    fixture.cloud.snapshots.create(&local, &fixture.waiters).await.unwrap_err();
    let asked = fixture.sim.calls().into_iter().find_map(|c| match c.request {
        Call::CreateSnapshot(request) => request.outpost_arn,
        _ => None,
    });
    assert_eq!(asked.as_deref(), Some(outpost));
    let regional =
        fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters).await.unwrap();
    assert!(matches!(regional, Ensured::Created(_)));
    let error = fixture.cloud.snapshots.create(&local, &fixture.waiters).await.unwrap_err();
    assert!(
        matches!(error.kind, CloudErrorKind::AlreadyExists),
        "a regional snapshot is not on the Outpost: {error:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn snapshot_quota_is_limit_exceeded() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    for limit in [Limit::Snapshots, Limit::ConcurrentSnapshots] {
        fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::LimitExceeded(limit), false);
        let error =
            fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::LimitExceeded), "{error:?}");
    }
}

/// EC2 refuses the second snapshot because of the cooldown.
#[tokio::test(start_paused = true)]
async fn recent_snapshot_of_another_process_is_found() {
    let fixture = Fixture::with(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let theirs = fixture.twin().snapshots.create(&spec, &fixture.waiters).await.unwrap().into_inner();
    let began = Instant::now();
    fixture.ec2.override_snapshots(move |snapshots| {
        if began.elapsed() < Duration::from_secs(14) {
            snapshots.clear();
        }
    });
    let ours = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.unwrap();
    assert_eq!(ours, Ensured::Existing(ours.clone().into_inner()));
    assert_eq!(ours.into_inner().id, theirs.id);
}

#[tokio::test(start_paused = true)]
async fn snapshot_that_is_not_listed_yet_is_not_deleted() {
    let fixture = Fixture::new().await;
    let id = snapshot(&fixture).await;
    let began = Instant::now();
    fixture.ec2.override_snapshots(move |snapshots| {
        if began.elapsed() < Duration::from_secs(14) {
            snapshots.clear();
        }
    });
    fixture.sim.fail_next(Action::DeleteSnapshot, ErrorClass::Ambiguous, false);
    fixture.cloud.snapshots.delete(&id, &fixture.waiters).await.unwrap();
    assert!(fixture.sim.engine().snapshot_of_state().await.snapshots.is_empty());
    assert_eq!(fixture.count(Action::DeleteSnapshot), 2);
}

/// Returns a lock in governance mode for three days.
fn governance() -> SnapshotFeatures {
    let lock = Lock { mode: LockMode::Governance, end: LockEnd::Days(3) };
    SnapshotFeatures { lock: Some(lock), ..SnapshotFeatures::default() }
}

async fn snapshots_there(fixture: &Fixture) -> usize {
    fixture.sim.engine().snapshot_of_state().await.snapshots.len()
}

/// Its lock is refused later.
#[tokio::test(start_paused = true)]
async fn snapshot_that_another_leader_reported_is_not_deleted() {
    let fixture = Fixture::new().await;
    fixture.sim.declare(Extra::SnapshotLocks);
    fixture.serve_alone().await;
    let volume = fixture.volume("pvc-1").await;
    let (spec, features) = (snapshot_spec("snap-a", &volume.id), governance());
    fixture.sim.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, false);
    let error = fixture.cloud.snapshots.provide(&spec, &features, &fixture.waiters).await.unwrap_err();
    assert_eq!(error.kind, CloudErrorKind::OutcomeUnknown, "{error:?}");
    fixture.pass(20).await;
    let reported = fixture.twin().snapshots.provide(&spec, &features, &fixture.waiters).await.unwrap();
    fixture.pass(20).await;
    let unlock = UnlockSnapshot { snapshot_id: reported.id.to_string(), ..UnlockSnapshot::default() };
    fixture.sim.engine().call(Call::UnlockSnapshot(unlock)).await.expect("a permitted user can unlock it");
    fixture.connect(ConnectionId::unique());
    fixture.sim.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    let error = fixture.cloud.snapshots.provide(&spec, &features, &fixture.waiters).await.unwrap_err();
    assert_eq!((error.kind.clone(), snapshots_there(&fixture).await), (CloudErrorKind::OutcomeUnknown, 1), "{error:?}");
}

/// EC2 may not find a snapshot everywhere right after it was taken.
#[tokio::test(start_paused = true)]
async fn snapshot_that_ec2_cannot_find_to_lock_is_not_deleted() {
    for action in [Action::LockSnapshot, Action::EnableFastSnapshotRestores] {
        let fixture = Fixture::new().await;
        fixture.serve_alone().await;
        let volume = fixture.volume("pvc-1").await;
        let features = SnapshotFeatures { fast_restore_zones: vec![zone("us-west-2a")], ..governance() };
        fixture.sim.fail_next(action, ErrorClass::SnapshotNotFound, false);
        let spec = snapshot_spec("snap-a", &volume.id);
        let error = fixture.cloud.snapshots.provide(&spec, &features, &fixture.waiters).await.unwrap_err();
        assert_eq!(error.kind, CloudErrorKind::OutcomeUnknown, "{error:?}");
        assert_eq!((snapshots_there(&fixture).await, fixture.count(Action::DeleteSnapshot)), (1, 0), "{action}");
    }
}

/// A VolumeSnapshotClass without `outpostArn` allows every place.
#[tokio::test(start_paused = true)]
async fn local_snapshot_matches_a_request_without_an_outpost() {
    let fixture = Fixture::new().await;
    let id = snapshot(&fixture).await;
    let volume = fixture.volume("pvc-1").await;
    fixture.ec2.override_snapshots(|snapshots| {
        let outpost = "arn:aws:outposts:us-west-2:123456789012:outpost/op-1";
        snapshots.iter_mut().for_each(|s| s.outpost_arn = Some(outpost.to_owned()));
    });
    let found = fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters).await;
    assert_eq!(found.unwrap().into_inner().id, id);
}
