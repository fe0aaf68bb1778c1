use ebs_cloud::{CloudError, CloudErrorKind, Ensured, Object, SnapshotState};
use ebs_ec2::{Action, ErrorClass, Snapshots};
use ebs_sim::api::Call;
use ebs_sim::engine::{EngineConfig, Timing, TimingOverride};
use ebs_types::{SnapshotId, VolumeId, Waiters};
use tokio::time::Instant;

use crate::fixture::{Fixture, message_of, snapshot_spec};

async fn snapshots(fixture: &Fixture) -> usize {
    fixture.sim.engine().snapshot_of_state().await.snapshots.len()
}

/// CreateSnapshot does not wait for the completion.
#[tokio::test(start_paused = true)]
async fn repeated_snapshot_is_the_same_snapshot_after_a_restart() {
    let mut fixture = Fixture::new().await;
    fixture.timing(TimingOverride { snapshot_ms: Some(60_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let first = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    assert_eq!(first.state, SnapshotState::Pending, "completion is not waited for");
    assert_eq!(
        fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap().id,
        first.id
    );
    fixture.restart();
    let again = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    assert_eq!((&again.id, again.source_volume), (&first.id, Some(volume.id)));
    fixture.pass(120).await;
    let done = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    assert_eq!((done.id, done.state), (first.id, SnapshotState::Completed));
    assert_eq!(snapshots(&fixture).await, 1);
}

/// One tag specification has both.
#[tokio::test(start_paused = true)]
async fn snapshot_has_description_name_and_owner() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters).await.unwrap().into_inner();
    let calls = fixture.sim.calls().into_iter();
    let mut requests =
        calls.filter_map(|c| if let Call::CreateSnapshot(request) = c.request { Some(request) } else { None });
    let request = requests.next().expect("one was taken");
    assert_eq!(request.description, Some(format!("Created by AWS EBS CSI driver for volume {}", volume.id)));
    let [tags] = request.tag_specifications.as_slice() else { panic!("{request:?}") };
    assert_eq!(tags.resource_type, "snapshot");
    for (key, value) in [("CSIVolumeSnapshotName", "snap-a"), ("ebs.csi.aws.com/cluster", "true")] {
        assert!(tags.tags.iter().any(|tag| tag.key == key && tag.value == value), "{tags:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn snapshot_name_of_another_source_already_exists() {
    let fixture = Fixture::new().await;
    let (one, two) = (fixture.volume("pvc-1").await, fixture.volume("pvc-2").await);
    let first = fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &one.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap();
    let error = fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &two.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::AlreadyExists), "{error:?}");
    assert!(
        message_of(&error).contains(first.id.as_str()) && message_of(&error).contains(one.id.as_str()),
        "{}",
        message_of(&error)
    );
    assert_eq!(snapshots(&fixture).await, 1);
}

/// A describe may be older than this process, so it does not refuse the name.
#[tokio::test(start_paused = true)]
async fn snapshot_name_is_free_after_a_delete_elsewhere() {
    let mut fixture = Fixture::new().await;
    let (one, two) = (fixture.volume("pvc-1").await, fixture.volume("pvc-2").await);
    let former =
        fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &one.id), &fixture.waiters).await.unwrap().into_inner();
    fixture.cloud.snapshots.delete(&former.id, &fixture.waiters).await.unwrap();
    fixture.restart();
    let began = Instant::now();
    fixture.ec2.override_snapshots(move |snapshots| {
        if began.elapsed().as_secs() < 14 {
            *snapshots = vec![former.clone()];
        }
    });
    let now =
        fixture.cloud.snapshots.create(&snapshot_spec("snap-a", &two.id), &fixture.waiters).await.unwrap().into_inner();
    assert_eq!(now.source_volume, Some(two.id));
    assert_eq!(snapshots(&fixture).await, 1);
}

#[tokio::test(start_paused = true)]
async fn snapshot_with_a_lost_reply_is_found_by_its_name() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, true);
    fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap();
    assert_eq!(snapshots(&fixture).await, 1);
    assert_eq!(fixture.count(Action::CreateSnapshot), 1);
}

#[tokio::test(start_paused = true)]
async fn unclear_snapshot_is_taken_again_only_after_15_s() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, false);
    let began = Instant::now();
    fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap();
    assert!(began.elapsed().as_secs() >= 15, "{:?}", began.elapsed());
    assert_eq!(snapshots(&fixture).await, 1);
}

#[tokio::test(start_paused = true)]
async fn snapshot_that_is_not_listed_yet_is_not_taken_twice() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let first = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    let began = Instant::now();
    fixture.ec2.override_snapshots(move |snapshots| {
        if began.elapsed().as_secs() < 14 {
            snapshots.clear();
        }
    });
    assert_eq!(
        fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap().id,
        first.id
    );
}

#[tokio::test(start_paused = true)]
async fn new_process_does_not_trust_an_absent_snapshot() {
    let mut fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let first = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    fixture.restart();
    let began = Instant::now();
    fixture.ec2.override_snapshots(move |snapshots| {
        if began.elapsed().as_secs() < 14 {
            snapshots.clear();
        }
    });
    assert_eq!(
        fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap().id,
        first.id
    );
    assert_eq!(snapshots(&fixture).await, 1);
}

/// The error names the snapshot.
#[tokio::test(start_paused = true)]
async fn failed_snapshot_of_this_process_is_deleted() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let first = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    fixture.ec2.override_snapshots(|snapshots| {
        for snapshot in snapshots {
            snapshot.state = SnapshotState::Error;
            snapshot.status_message = Some("out of disks".into());
        }
    });
    let error = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{error:?}");
    assert!(
        message_of(&error).contains(first.id.as_str()) && message_of(&error).contains("out of disks"),
        "{}",
        message_of(&error)
    );
    assert_eq!(snapshots(&fixture).await, 0);
}

#[tokio::test(start_paused = true)]
async fn failed_snapshot_of_another_process_is_kept() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let theirs = fixture.twin().snapshots.create(&spec, &fixture.waiters).await.unwrap().into_inner();
    fixture.ec2.override_snapshots(|snapshots| snapshots.iter_mut().for_each(|s| s.state = SnapshotState::Error));
    let error = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutcomeUnknown), "{error:?}");
    assert!(
        message_of(&error).contains(theirs.id.as_str()) && message_of(&error).contains("has failed"),
        "{}",
        message_of(&error)
    );
    assert_eq!(snapshots(&fixture).await, 1);
}

#[tokio::test(start_paused = true)]
async fn several_snapshots_of_one_name_are_listed_in_the_error() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let first = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
    let request = ebs_ec2::CreateSnapshot {
        volume: volume.id.clone(),
        description: String::new(),
        outpost_arn: None,
        tags: spec.tags.clone(),
    };
    let second = fixture.sim.by_test().create_snapshot(&request).await.unwrap();
    let error = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::AlreadyExists), "{error:?}");
    assert!([first.id, second.id].iter().all(|id| message_of(&error).contains(id.as_str())), "{}", message_of(&error));
}

#[tokio::test(start_paused = true)]
async fn missing_source_volume_is_named() {
    let fixture = Fixture::new().await;
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    match fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &missing), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap_err()
    {
        CloudError { kind: CloudErrorKind::SourceNotFound(object), .. } => assert_eq!(object, Object::Volume(missing)),
        other => panic!("{other:?}"),
    }
}

/// The wait is within the deadline.
#[tokio::test(start_paused = true)]
async fn second_snapshot_of_a_volume_waits_for_the_cooldown() {
    let fixture = Fixture::with(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await;
    fixture.serve_alone().await;
    let volume = fixture.volume("pvc-1").await;
    let began = Instant::now();
    fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap();
    fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-b", &volume.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap();
    assert!((15..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(snapshots(&fixture).await, 2);
}

#[tokio::test(start_paused = true)]
async fn endless_snapshot_cooldown_is_not_a_final_error() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    let volume = fixture.volume("pvc-1").await;
    for _ in 0..100 {
        fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::SnapshotCooldown, false);
    }
    let error = fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Unavailable), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn delete_of_a_missing_or_malformed_snapshot_succeeds() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let snapshot = fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap();
    fixture.pass(1).await;
    assert_eq!(fixture.cloud.snapshots.get(&snapshot.id).await.unwrap().map(|s| s.id), Some(snapshot.id.clone()));
    for _ in 0..2 {
        fixture.cloud.snapshots.delete(&snapshot.id, &fixture.waiters).await.unwrap();
    }
    assert_eq!(fixture.cloud.snapshots.get(&snapshot.id).await.unwrap(), None);
    let malformed = SnapshotId::parse("snap-zz").unwrap();
    fixture.cloud.snapshots.delete(&malformed, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.cloud.snapshots.get(&malformed).await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn snapshot_deletion_with_a_lost_reply_is_checked() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    for done in [true, false] {
        let spec = snapshot_spec(&format!("snap-{done}"), &volume.id);
        let snapshot = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap();
        fixture.pass(1).await;
        fixture.sim.fail_next(Action::DeleteSnapshot, ErrorClass::Ambiguous, done);
        fixture.cloud.snapshots.delete(&snapshot.id, &fixture.waiters).await.unwrap();
        assert_eq!(snapshots(&fixture).await, 0);
    }
    assert_eq!(fixture.count(Action::DeleteSnapshot), 3);
}

/// The error is FailedPrecondition.
#[tokio::test(start_paused = true)]
async fn snapshot_in_use_is_not_deleted() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let snapshot = fixture
        .cloud
        .snapshots
        .create(&snapshot_spec("snap-a", &volume.id), &fixture.waiters)
        .await
        .map(Ensured::into_inner)
        .unwrap();
    fixture.sim.fail_next(Action::DeleteSnapshot, ErrorClass::SnapshotInUse, false);
    let error = fixture.cloud.snapshots.delete(&snapshot.id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn snapshot_without_waiters_is_not_taken() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let spec = snapshot_spec("snap-a", &volume.id);
    let error = fixture.cloud.snapshots.create(&spec, &Waiters::default()).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Abandoned), "{error:?}");
    assert_eq!(snapshots(&fixture).await, 0);
}

#[tokio::test(start_paused = true)]
async fn refused_describe_of_a_snapshot_is_not_a_final_error() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::DescribeSnapshots, ErrorClass::Unauthorized, false);
    let spec = snapshot_spec("snap-a", &volume.id);
    let error = fixture.cloud.snapshots.create(&spec, &fixture.waiters).await.map(Ensured::into_inner).unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutcomeUnknown), "{error:?}");
    assert_eq!(fixture.count(Action::CreateSnapshot), 0);
}
