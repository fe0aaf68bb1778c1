use ebs_cloud::{CloudErrorKind, Object, SnapshotFeatures, SnapshotState};
use ebs_ec2::{Action, ErrorClass, SnapshotId, Snapshots, VolumeId};
use ebs_sim::api::Call;
use ebs_sim::engine::{EngineConfig, Timing, TimingOverride};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions, message_of, snapshot_spec};

/// CreateSnapshot returns before the snapshot is complete.
#[tokio::test(start_paused = true)]
async fn repeated_request_returns_same_snapshot_even_after_restart() {
    let (mut fixture, volume) = Fixture::with_volume().await;
    fixture.timing(TimingOverride { snapshot_ms: Some(60_000), ..TimingOverride::default() }).await;
    let spec = snapshot_spec("snap-a", &volume);
    let first = fixture.snapshot(&spec).await.unwrap();
    assert_eq!(first.state, SnapshotState::Pending, "completion is not waited for");
    assert_eq!(fixture.snapshot(&spec).await.unwrap().id, first.id);
    fixture.restart();
    let again = fixture.snapshot(&spec).await.unwrap();
    assert_eq!((&again.id, again.source_volume), (&first.id, Some(volume)));
    fixture.pass(120).await;
    let done = fixture.snapshot(&spec).await.unwrap();
    assert_eq!((done.id, done.state), (first.id, SnapshotState::Completed));
    assert_eq!(fixture.snapshots().await, 1);
}

#[tokio::test(start_paused = true)]
async fn snapshot_has_description_and_name_and_owner_tags() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.snapshot(&snapshot_spec("snap-a", &volume)).await.unwrap();
    let calls = fixture.sim.calls().into_iter();
    let mut requests =
        calls.filter_map(|c| if let Call::CreateSnapshot(request) = c.request { Some(request) } else { None });
    let request = requests.next().expect("one was taken");
    assert_eq!(request.description, Some(format!("Created by AWS EBS CSI driver for volume {}", volume)));
    let [tags] = request.tag_specifications.as_slice() else { panic!("{request:?}") };
    assert_eq!(tags.resource_type, "snapshot");
    for (key, value) in [("CSIVolumeSnapshotName", "snap-a"), ("ebs.csi.aws.com/cluster", "true")] {
        assert!(tags.tags.iter().any(|tag| tag.key == key && tag.value == value), "{tags:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn snapshot_name_used_for_another_source_is_already_exists() {
    let fixture = Fixture::new().await;
    let (one, two) = (fixture.volume("pvc-1").await, fixture.volume("pvc-2").await);
    let first = fixture.snapshot(&snapshot_spec("snap-a", &one.id)).await.unwrap();
    let error = assert_error(fixture.snapshot(&snapshot_spec("snap-a", &two.id)).await, CloudErrorKind::AlreadyExists);
    assert_mentions(&error, &[first.id.as_str(), one.id.as_str()]);
    assert_eq!(fixture.snapshots().await, 1);
}

#[tokio::test(start_paused = true)]
async fn unclear_snapshot_is_taken_again_only_after_15_s() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, false);
    let began = Instant::now();
    fixture.snapshot(&snapshot_spec("snap-a", &volume)).await.unwrap();
    assert!(began.elapsed().as_secs() >= 15, "{:?}", began.elapsed());
    assert_eq!(fixture.snapshots().await, 1);
}

#[tokio::test(start_paused = true)]
async fn snapshot_that_is_not_listed_yet_is_not_taken_twice() {
    for restarts in [false, true] {
        let (mut fixture, volume) = Fixture::with_volume().await;
        let spec = snapshot_spec("snap-a", &volume);
        let first = fixture.snapshot(&spec).await.unwrap();
        if restarts {
            fixture.restart();
        }
        fixture.ec2.hide_snapshots(14);
        assert_eq!(fixture.snapshot(&spec).await.unwrap().id, first.id, "restarts: {restarts}");
        assert_eq!(fixture.snapshots().await, 1, "restarts: {restarts}");
    }
}

/// The answer to CreateSnapshot was lost, so no client knows the snapshot. The error names it.
#[tokio::test(start_paused = true)]
async fn failed_snapshot_of_this_process_is_deleted() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.override_snapshots(|snapshots| {
        for snapshot in snapshots {
            snapshot.state = SnapshotState::Error;
            snapshot.status_message = Some("out of disks".into());
        }
    });
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, true);
    let outcome = fixture.snapshot(&snapshot_spec("snap-a", &volume)).await;
    let error = assert_error(outcome, CloudErrorKind::FailedPrecondition);
    assert_mentions(&error, &["snap-", "has failed (out of disks)"]);
    assert_eq!((fixture.snapshots().await, fixture.count(Action::DeleteSnapshot)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn failed_snapshot_of_another_process_is_kept() {
    let (fixture, volume) = Fixture::with_volume().await;
    let spec = snapshot_spec("snap-a", &volume);
    let theirs = fixture.twin().snapshots.ensure(&spec, &SnapshotFeatures::default(), &fixture.waiters).await.unwrap();
    fixture.ec2.override_snapshots(|snapshots| snapshots.iter_mut().for_each(|s| s.state = SnapshotState::Error));
    let error = assert_error(fixture.snapshot(&spec).await, CloudErrorKind::OutcomeUnknown);
    assert_mentions(&error, &[theirs.id.as_str(), "has failed"]);
    assert_eq!(fixture.snapshots().await, 1);
}

#[tokio::test(start_paused = true)]
async fn error_lists_all_snapshots_with_the_requested_name() {
    let (fixture, volume) = Fixture::with_volume().await;
    let spec = snapshot_spec("snap-a", &volume);
    let first = fixture.snapshot(&spec).await.unwrap();
    let request = ebs_ec2::CreateSnapshot {
        volume: volume.clone(),
        description: String::new(),
        outpost_arn: None,
        tags: spec.tags.clone(),
    };
    let second = fixture.sim.by_test().create_snapshot(&request).await.unwrap();
    let error = assert_error(fixture.snapshot(&spec).await, CloudErrorKind::AlreadyExists);
    assert!([first.id, second.id].iter().all(|id| message_of(&error).contains(id.as_str())), "{}", message_of(&error));
}

#[tokio::test(start_paused = true)]
async fn error_names_the_missing_source_volume() {
    let fixture = Fixture::new().await;
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    assert_error(
        fixture.snapshot(&snapshot_spec("snap-a", &missing)).await,
        CloudErrorKind::SourceNotFound(Object::Volume(missing)),
    );
}

#[tokio::test(start_paused = true)]
async fn second_snapshot_of_a_volume_waits_for_the_cooldown() {
    let fixture = Fixture::with(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await;
    fixture.serve_alone().await;
    let volume = fixture.volume("pvc-1").await;
    let began = Instant::now();
    fixture.snapshot(&snapshot_spec("snap-a", &volume.id)).await.unwrap();
    fixture.snapshot(&snapshot_spec("snap-b", &volume.id)).await.unwrap();
    assert!((15..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(fixture.snapshots().await, 2);
}

#[tokio::test(start_paused = true)]
async fn endless_snapshot_cooldown_is_not_a_final_error() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.serve_alone().await;
    for _ in 0..100 {
        fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::SnapshotCooldown, false);
    }
    assert_error(fixture.snapshot(&snapshot_spec("snap-a", &volume)).await, CloudErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn delete_of_a_missing_or_malformed_snapshot_succeeds() {
    let (fixture, volume) = Fixture::with_volume().await;
    let snapshot = fixture.snapshot(&snapshot_spec("snap-a", &volume)).await.unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.cloud.snapshots.get(&snapshot.id).await.unwrap().map(|s| s.id), Some(snapshot.id.clone()));
    for _ in 0..2 {
        fixture.delete_snapshot(&snapshot.id).await.unwrap();
    }
    assert_eq!(fixture.cloud.snapshots.get(&snapshot.id).await.unwrap(), None);
    let malformed = SnapshotId::parse("snap-zz").unwrap();
    fixture.delete_snapshot(&malformed).await.unwrap();
    assert_eq!(fixture.cloud.snapshots.get(&malformed).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn snapshot_deletion_with_a_lost_reply_is_repeated_if_needed() {
    let (fixture, volume) = Fixture::with_volume().await;
    for done in [true, false] {
        let spec = snapshot_spec(&format!("snap-{done}"), &volume);
        let snapshot = fixture.snapshot(&spec).await.unwrap();
        fixture.pass(1).await;
        fixture.sim.fail_next(Action::DeleteSnapshot, ErrorClass::Ambiguous, done);
        fixture.delete_snapshot(&snapshot.id).await.unwrap();
        assert_eq!(fixture.snapshots().await, 0);
    }
    assert_eq!(fixture.count(Action::DeleteSnapshot), 3);
}

#[tokio::test(start_paused = true)]
async fn refused_describe_of_a_snapshot_is_not_a_final_error() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.sim.fail_next(Action::DescribeSnapshots, ErrorClass::Unauthorized, false);
    let spec = snapshot_spec("snap-a", &volume);
    assert_error(fixture.snapshot(&spec).await, CloudErrorKind::OutcomeUnknown);
    assert_eq!(fixture.count(Action::CreateSnapshot), 0);
}
