//! What the driver proves before it reports a final error for a creation, after which a sidecar forgets the name.

use std::collections::BTreeSet;
use std::time::Duration;

use ebs_cloud::{CloudError, CloudErrorKind, Object, SnapshotFeatures, Source, VolumeSpec, VolumeState};
use ebs_ec2::{Action, ConnectionId, ErrorClass, SnapshotId, VolumeId, VolumeType, Waiters};
use ebs_sim::engine::{BurntToken, EngineConfig};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions, in_zone, message_of, request, snapshot_spec, spec};

/// Refusals that EC2 may return before it checks the token.
const REFUSALS: [ErrorClass; 7] = [
    ErrorClass::Unauthorized,
    ErrorClass::Unauthenticated,
    ErrorClass::Encryption,
    ErrorClass::InsufficientCapacity,
    ErrorClass::InvalidParameter,
    ErrorClass::SnapshotNotFound,
    ErrorClass::Other,
];

fn describes(fixture: &Fixture) -> usize {
    fixture.count(Action::DescribeVolumes)
}

#[tokio::test(start_paused = true)]
async fn refused_creation_finds_a_volume_of_another_process() {
    let fixture = Fixture::new().await;
    for (n, class) in REFUSALS.into_iter().enumerate() {
        let wanted = spec(&format!("pvc-{n}"));
        let made = fixture.twin().volumes.create(&wanted, &fixture.waiters).await.unwrap();
        fixture.pass(60).await;
        fixture.sim.fail_next(Action::CreateVolume, class, false);
        let found = fixture.create(&wanted).await;
        assert_eq!(found.map(|v| v.id).ok(), Some(made.id), "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn creation_error_is_final_only_after_15_s_as_leader() {
    let fixture = Fixture::new().await;
    let made = fixture.twin().volumes.create(&spec("pvc-1"), &fixture.waiters).await.unwrap();
    fixture.ec2.hide_volumes(14);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    assert_eq!(fixture.create(&spec("pvc-1")).await.map(|v| v.id).ok(), Some(made.id));
}

#[tokio::test(start_paused = true)]
async fn proven_absence_is_not_proven_again_for_each_refusal() {
    let fixture = Fixture::new().await;
    fixture.volume("other").await;
    fixture.pass(10).await;
    fixture.volume("another").await;
    fixture.pass(10).await;
    let before = describes(&fixture);
    for _ in 0..3 {
        fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
        assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::Unauthorized);
    }
    assert_eq!(describes(&fixture), before + 1);
    // Once a volume may have been created, a refusal requires another describe.
    fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Unauthorized, false);
    assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::OutcomeUnknown);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    fixture.create(&spec("pvc-1")).await.expect("it was made");
}

#[tokio::test(start_paused = true)]
async fn absence_proof_expires_after_a_pause_without_requests() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    fixture.create(&spec("pvc-1")).await.unwrap_err();
    fixture.pass(60).await;
    let made = fixture.twin().volumes.create(&spec("pvc-1"), &fixture.waiters).await.unwrap();
    fixture.pass(60).await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    assert_eq!(fixture.create(&spec("pvc-1")).await.map(|v| v.id).ok(), Some(made.id));
}

#[tokio::test(start_paused = true)]
async fn refused_source_describe_is_final_only_if_absence_is_proven() {
    let mut fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..spec("pvc-1") };
    let made = fixture.create(&clone).await.unwrap();
    fixture.restart();
    fixture.pass(60).await;
    fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Unauthorized, false);
    assert_eq!(fixture.create(&clone).await.map(|v| v.id).ok(), Some(made.id), "the describe of the source fails");
    fixture.restart();
    fixture.pass(60).await;
    for _ in 0..2 {
        fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Unauthorized, false);
    }
    let error = fixture.create(&clone).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutcomeUnknown), "every describe fails: {error:?}");
}

#[tokio::test(start_paused = true)]
async fn zone_listing_error_does_not_hide_an_existing_volume() {
    let mut fixture = Fixture::new().await;
    let made = fixture.create(&spec("pvc-1")).await.unwrap();
    fixture.restart();
    fixture.pass(60).await;
    fixture.sim.fail_next(Action::DescribeAvailabilityZones, ErrorClass::Unauthorized, false);
    assert_eq!(fixture.create(&spec("pvc-1")).await.map(|v| v.id).ok(), Some(made.id.clone()), "refused");
    fixture.restart();
    fixture.pass(60).await;
    fixture.ec2.override_zones(Vec::clear);
    assert_eq!(fixture.create(&spec("pvc-1")).await.map(|v| v.id).ok(), Some(made.id), "none listed");
}

#[tokio::test(start_paused = true)]
async fn failed_describe_of_a_volume_is_not_a_final_error() {
    let fixture = Fixture::new().await;
    fixture.twin().volumes.create(&spec("pvc-1"), &fixture.waiters).await.unwrap();
    fixture.pass(60).await;
    let (sim, mut looks) = (fixture.sim.clone(), 0);
    fixture.ec2.override_volumes(move |volumes| {
        looks += 1;
        if looks == 1 {
            volumes.iter_mut().for_each(|v| v.state = VolumeState::Creating);
            sim.fail_next(Action::DescribeVolumes, ErrorClass::Unauthorized, false);
        }
    });
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::OutcomeUnknown);
}

#[tokio::test(start_paused = true)]
async fn encrypted_volume_with_a_later_token_is_found() {
    let fixture = Fixture::with(EngineConfig { burnt_token: BurntToken::OldReply, ..EngineConfig::default() }).await;
    let wanted = VolumeSpec { encrypted: true, ..spec("pvc-1") };
    let twin = fixture.twin();
    let first = twin.volumes.create(&wanted, &fixture.waiters).await.unwrap();
    twin.volumes.delete(&first.id, &fixture.waiters).await.unwrap();
    let request = ebs_ec2::CreateVolume { encrypted: true, ..request(&wanted, "the-next-token") };
    let second = fixture.stranger(request).await;
    fixture.pass(60).await;
    assert_eq!(fixture.create(&wanted).await.map(|v| v.id).ok(), Some(second));
}

/// Makes describes show every volume in state error.
fn break_volumes(fixture: &Fixture) {
    fixture.ec2.override_volumes(|volumes| volumes.iter_mut().for_each(|v| v.state = VolumeState::Error));
}

/// The volume has the requested name and the tags of this cluster.
#[tokio::test(start_paused = true)]
async fn volume_in_state_error_is_deleted_before_a_final_error() {
    let fixture = Fixture::new().await;
    break_volumes(&fixture);
    let began = Instant::now();
    for n in 1..=3 {
        let error = assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::FailedPrecondition);
        assert_mentions(&error, &["state error", "deleted"]);
        assert_eq!(fixture.volumes().await.len(), 0, "left behind by attempt {n}");
    }
    assert!(began.elapsed().as_secs() < 60, "no longer than a describe of the name each: {:?}", began.elapsed());
    let tokens: BTreeSet<_> = fixture.creations().into_iter().map(|request| request.client_token).collect();
    assert_eq!(tokens.len(), 3, "each attempt uses the next token");
}

#[tokio::test(start_paused = true)]
async fn failed_delete_of_a_broken_volume_is_retried() {
    for burnt_token in [BurntToken::Mismatch, BurntToken::OldReply] {
        let mut fixture = Fixture::with(EngineConfig { burnt_token, ..EngineConfig::default() }).await;
        break_volumes(&fixture);
        fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Unauthorized, false);
        let error = assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::OutcomeUnknown);
        let left = fixture.volumes().await;
        assert!(left.len() == 1 && message_of(&error).contains(&left[0].id), "{}", message_of(&error));
        fixture.restart();
        fixture.create(&spec("pvc-1")).await.unwrap_err();
        assert_eq!(fixture.volumes().await.len(), 0, "{burnt_token:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn broken_volume_found_by_name_is_deleted_if_it_is_ours() {
    let fixture = Fixture::new().await;
    let ours = fixture.stranger(request(&spec("pvc-1"), "earlier")).await;
    let mut theirs = spec("pvc-1");
    theirs.tags.insert("kubernetes.io/cluster/blue".into(), "shared".into());
    let theirs = fixture.stranger(request(&theirs, "theirs")).await;
    break_volumes(&fixture);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::Unauthorized);
    let left: Vec<String> = fixture.volumes().await.into_iter().map(|v| v.id).collect();
    assert_eq!(left, [theirs.as_str()], "{ours} should be gone");
}

/// "Not found" proves the deletion only from 15 s after the volume was last known to exist, and never for a new leader.
/// The same applies to snapshots.
#[tokio::test(start_paused = true)]
async fn not_found_does_not_prove_deletion_of_a_new_volume() {
    for restarts in [false, true] {
        let (mut fixture, volume) = Fixture::with_volume().await;
        if restarts {
            fixture.restart();
        } else {
            fixture.ec2.hide_volumes(10);
        }
        fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::VolumeNotFound, false);
        fixture.delete(&volume).await.unwrap();
        assert_eq!(fixture.volumes().await.len(), 0, "reported deleted while it exists");
    }
}

#[tokio::test(start_paused = true)]
async fn not_found_proves_deletion_of_an_old_volume() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.pass(20).await;
    fixture.twin().volumes.delete(&volume, &fixture.waiters).await.unwrap();
    let (looks_before, began) = (describes(&fixture), Instant::now());
    fixture.delete(&volume).await.unwrap();
    assert_eq!(describes(&fixture), looks_before);
    assert!(began.elapsed().as_secs() < 2, "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn not_found_does_not_prove_deletion_of_a_new_snapshot() {
    let (mut fixture, volume) = Fixture::with_volume().await;
    for (n, restarts) in [(1, false), (2, true)] {
        let made = fixture.snapshot(&snapshot_spec(&format!("snap-{n}"), &volume)).await;
        if restarts {
            fixture.restart();
        }
        fixture.sim.fail_next(Action::DeleteSnapshot, ErrorClass::SnapshotNotFound, false);
        fixture.delete_snapshot(&made.unwrap().id).await.unwrap();
        let left = fixture.sim.engine().snapshot_of_state().await.snapshots.len();
        assert_eq!(left, 0, "reported deleted while it exists");
    }
}

/// DescribeSnapshots calls may return stale results for up to 15 s after the other process's call.
#[tokio::test(start_paused = true)]
async fn snapshot_of_another_process_is_found_and_not_repeated() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.pass(20).await;
    for lag in [0, 7, 14] {
        let wanted = snapshot_spec(&format!("snap-{lag}"), &volume);
        let theirs =
            fixture.twin().snapshots.ensure(&wanted, &SnapshotFeatures::default(), &fixture.waiters).await.unwrap();
        fixture.ec2.hide_snapshots(lag);
        let calls = fixture.count(Action::CreateSnapshot);
        let found = fixture.snapshot(&wanted).await;
        assert_eq!(found.map(|s| s.id).ok(), Some(theirs.id), "shown after {lag} s");
        assert_eq!(fixture.count(Action::CreateSnapshot), calls, "shown after {lag} s");
        fixture.pass(60).await;
    }
}

#[tokio::test(start_paused = true)]
async fn undelivered_error_expires_when_the_leader_changes() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.serve_alone().await;
    let wanted = snapshot_spec("snap", &volume);
    let features = SnapshotFeatures::default();
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Unauthorized, false);
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let client = async {
        let asked = async {
            while fixture.count(Action::CreateSnapshot) == 0 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(60), asked).await.expect("CreateSnapshot is called");
        drop(waiter);
    };
    let (refused, ()) = tokio::join!(fixture.cloud.snapshots.ensure(&wanted, &features, &waiters), client);
    assert!(matches!(refused, Err(CloudError { kind: CloudErrorKind::Unauthorized, .. })), "{refused:?}");
    fixture.pass(30).await;
    let theirs = fixture.twin().snapshots.ensure(&wanted, &features, &fixture.waiters).await.unwrap();
    fixture.connect(ConnectionId::unique());
    fixture.ec2.hide_snapshots(14);
    let found = fixture.ensure(&wanted, &features).await;
    assert_eq!(found.map(|snapshot| snapshot.id).ok(), Some(theirs.id));
}

#[tokio::test(start_paused = true)]
async fn refused_snapshot_creation_sends_a_single_describe() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.serve_alone().await;
    let before = fixture.count(Action::DescribeSnapshots);
    fixture.sim.fail_next(Action::CreateSnapshot, ErrorClass::Unauthorized, false);
    assert_error(fixture.snapshot(&snapshot_spec("snap", &volume)).await, CloudErrorKind::Unauthorized);
    assert_eq!(fixture.count(Action::DescribeSnapshots), before + 1, "the describe before the call is a proof");
}

#[tokio::test(start_paused = true)]
async fn unknown_volume_type_is_sent_to_ec2_unchanged() {
    let fixture = Fixture::new().await;
    let wanted = VolumeSpec {
        volume_type: VolumeType::Other("gp9".to_owned()),
        iops: ebs_ec2::IopsRequest::explicit(900_000),
        ..in_zone(spec("pvc-1"), "us-west-2a")
    };
    assert_error(fixture.create(&wanted).await, CloudErrorKind::InvalidArgument);
    let request = fixture.creations().pop().expect("EC2 was asked");
    assert_eq!((request.volume_type.as_deref(), request.iops), (Some("gp9"), Some(900_000)));
}

#[tokio::test(start_paused = true)]
async fn missing_source_is_reported_only_after_a_describe_by_name() {
    let fixture = Fixture::new().await;
    let snapshot = SnapshotId::parse("snap-0123456789abcdef0").unwrap();
    let volume = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    let sources = [
        (Source::Snapshot(snapshot.clone()), Object::Snapshot(snapshot)),
        (Source::Volume(volume.clone()), Object::Volume(volume)),
    ];
    for (n, (source, object)) in sources.into_iter().enumerate() {
        let wanted = VolumeSpec { source, ..spec(&format!("pvc-{n}")) };
        assert_error(fixture.create(&wanted).await, CloudErrorKind::SourceNotFound(object));
        assert!(describes(&fixture) > n, "the name was not described");
    }
    assert_eq!(fixture.volumes().await.len(), 0);
}
