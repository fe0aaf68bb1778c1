use ebs_cloud::{CapacityRequest, CloudError, CloudErrorKind, SnapshotFeatures, Source, VolumeSpec, VolumeState};
use ebs_ec2::{Action, ErrorClass, Gib, IopsRequest, Limit, VolumeId, VolumeType, Waiters};
use ebs_sim::engine::{BurntToken, EngineConfig, TimingOverride};
use ebs_sim::iam::Extra;
use tokio::time::Instant;

use crate::fixture::{
    Fixture, assert_error, assert_mentions, expand, in_zone, in_zone_with_id, message_of, request, snapshot_spec, spec,
    zone,
};

#[tokio::test(start_paused = true)]
async fn repeated_creation_returns_same_volume_without_name_lookup() {
    let fixture = Fixture::new().await;
    let first = fixture.create(&spec("pvc-1")).await.unwrap();
    let again = fixture.create(&spec("pvc-1")).await.unwrap();
    assert_eq!(first.id, again.id);
    assert_eq!(first.state, VolumeState::Available);
    assert_eq!(fixture.volumes().await.len(), 1);
    assert_eq!(fixture.sim.calls()[1].action, Action::CreateVolume, "only zones are described before the creation");
    assert_eq!(fixture.count(Action::DescribeVolumes), 2, "one describe for each creation, for its state");
}

#[tokio::test(start_paused = true)]
async fn creation_fails_with_already_exists_if_properties_differ() {
    let fixture = Fixture::new().await;
    let first = fixture.create(&spec("pvc-1")).await.unwrap();
    let capacity = CapacityRequest { required: Some(Gib(8)), fallback: Gib(8), limit: None };
    let other = VolumeSpec { capacity, ..spec("pvc-1") };
    for _ in 0..3 {
        let error = assert_error(fixture.create(&other).await, CloudErrorKind::AlreadyExists);
        assert_mentions(&error, &[first.id.as_str(), "its size is 4 GiB"]);
    }
    assert_eq!(
        fixture.create(&spec("pvc-1")).await.unwrap().id,
        first.id,
        "the original content still finds its volume"
    );
    assert_eq!(fixture.volumes().await.len(), 1);
}

/// The second request has the same token as the first.
#[tokio::test(start_paused = true)]
async fn unclear_creation_is_repeated_only_after_15_s() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, false);
    fixture.create(&spec("pvc-1")).await.unwrap();
    let requests = fixture.creations();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1], "token included");
    let at: Vec<_> = fixture.sim.calls().iter().filter(|c| c.action == Action::CreateVolume).map(|c| c.at).collect();
    assert!(at[1].duration_since(at[0]).unwrap().as_secs() >= 15, "{at:?}");
}

#[tokio::test(start_paused = true)]
async fn creation_with_a_lost_reply_is_not_repeated() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, true);
    fixture.ec2.hide_volumes(14);
    fixture.create(&spec("pvc-1")).await.unwrap();
    assert_eq!(fixture.creations().len(), 1);
}

/// If no compatible volume has the name, the error is LimitExceeded.
#[tokio::test(start_paused = true)]
async fn existing_volume_is_adopted_when_the_quota_is_full() {
    let config = EngineConfig { max_volumes: 3, ..EngineConfig::default() };
    let fixture = Fixture::with(config).await;
    let volume = fixture.create(&spec("pvc-1")).await.unwrap();
    assert_error(fixture.create(&spec("pvc-2")).await, CloudErrorKind::LimitExceeded);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::LimitExceeded(Limit::Volumes), false);
    assert_eq!(fixture.create(&spec("pvc-1")).await.unwrap().id, volume.id);
}

#[tokio::test(start_paused = true)]
async fn volume_of_another_cluster_is_never_adopted() {
    let fixture = Fixture::new().await;
    let mut theirs = spec("pvc-1");
    theirs.tags.remove("kubernetes.io/cluster/blue");
    theirs.tags.insert("kubernetes.io/cluster/green".into(), "owned".into());
    let stranger = fixture.stranger(request(&theirs, "their-token")).await;
    for class in [ErrorClass::LimitExceeded(Limit::Volumes), ErrorClass::IdempotentMismatch, ErrorClass::Ambiguous] {
        fixture.sim.fail_next(Action::CreateVolume, class, false);
        let error = assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::AlreadyExists);
        assert_mentions(&error, &[stranger.as_str()]);
    }
    assert_eq!(fixture.volumes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn error_lists_all_volumes_with_the_requested_name() {
    let fixture = Fixture::new().await;
    let ids =
        [fixture.stranger(request(&spec("pvc-1"), "a")).await, fixture.stranger(request(&spec("pvc-1"), "b")).await];
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::IdempotentMismatch, false);
    let error = assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::AlreadyExists);
    assert!(ids.iter().all(|id| message_of(&error).contains(id.as_str())), "{}", message_of(&error));
}

/// For a used token, EC2 may return a mismatch or its old reply.
#[tokio::test(start_paused = true)]
async fn creation_with_name_of_a_deleted_volume_uses_next_token() {
    for burnt_token in [BurntToken::Mismatch, BurntToken::OldReply] {
        let mut fixture = Fixture::with(EngineConfig { burnt_token, ..EngineConfig::default() }).await;
        let old = fixture.create(&spec("pvc-1")).await.unwrap();
        fixture.delete(&old.id).await.unwrap();
        fixture.pass(60).await;
        let new = fixture.create(&spec("pvc-1")).await.unwrap();
        assert_ne!(new.id, old.id);
        let tokens: Vec<_> = fixture.creations().iter().filter_map(|c| c.client_token.clone()).collect();
        assert_eq!(tokens.first(), tokens.get(1));
        assert_ne!(tokens.first(), tokens.last());
        // A restarted process has lost the token counter, but still finds the new volume.
        fixture.restart();
        fixture.pass(60).await;
        assert_eq!(fixture.create(&spec("pvc-1")).await.unwrap().id, new.id);
    }
}

#[tokio::test(start_paused = true)]
async fn client_token_changes_only_after_15_s_without_a_volume() {
    let fixture = Fixture::new().await;
    fixture.stranger(request(&spec("pvc-1"), "token-of-another-process")).await;
    fixture.ec2.hide_volumes(14);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::IdempotentMismatch, false);
    fixture.create(&spec("pvc-1")).await.unwrap();
    assert_eq!(fixture.volumes().await.len(), 1, "the volume of the other process is adopted once it is seen");
}

#[tokio::test(start_paused = true)]
async fn unusable_kms_key_is_reported_and_the_token_changes() {
    let fixture = Fixture::new().await;
    fixture.sim.declare(Extra::Kms);
    let spec = VolumeSpec { encrypted: true, kms_key_id: Some("no-such-key".into()), ..spec("pvc-1") };
    for _ in 0..2 {
        let error = assert_error(fixture.create(&spec).await, CloudErrorKind::FailedPrecondition);
        assert_mentions(&error, &["KMS key no-such-key"]);
    }
    let requests = fixture.creations();
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].client_token, requests[1].client_token);
}

#[tokio::test(start_paused = true)]
async fn throttles_and_failed_describes_only_delay_a_creation() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(5_000), ..TimingOverride::default() }).await;
    for _ in 0..4 {
        fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
    }
    for class in [ErrorClass::Throttled, ErrorClass::Ambiguous, ErrorClass::NotSent] {
        fixture.sim.fail_next(Action::DescribeVolumes, class, false);
    }
    fixture.create(&spec("pvc-1")).await.unwrap();
    assert_eq!(fixture.volumes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn slow_creation_is_reported_as_in_progress() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(600_000), ..TimingOverride::default() }).await;
    assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::InProgress);
    assert_eq!(fixture.creations().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn creation_outcome_is_unknown_after_a_refused_describe() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Unauthorized, false);
    assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::OutcomeUnknown);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    fixture.create(&spec("pvc-1")).await.expect("the volume of the first attempt is found");
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    assert_error(fixture.create(&spec("pvc-2")).await, CloudErrorKind::Unauthorized);
}

#[tokio::test(start_paused = true)]
async fn zone_is_reported_by_name_for_a_request_by_zone_id() {
    let fixture = Fixture::new().await;
    let volume = fixture.create(&in_zone_with_id(spec("pvc-1"), "usw2-az2")).await.unwrap();
    assert_eq!(volume.zone, Some(zone("us-west-2b")));
    let request = &fixture.creations()[0];
    assert_eq!(
        (request.availability_zone.as_deref(), request.availability_zone_id.as_deref()),
        (None, Some("usw2-az2"))
    );
}

#[tokio::test(start_paused = true)]
async fn zone_is_chosen_by_volume_name_without_topology() {
    let fixture = Fixture::new().await;
    let mut zones = Vec::new();
    for n in 0..12 {
        zones.push(fixture.create(&spec(&format!("pvc-{n}"))).await.unwrap().zone.unwrap());
    }
    zones.sort();
    zones.dedup();
    assert_eq!(zones, [zone("us-west-2a"), zone("us-west-2b"), zone("us-west-2c")], "no local zone, and all used");
    assert_eq!(fixture.count(Action::DescribeAvailabilityZones), 1);
}

#[tokio::test(start_paused = true)]
async fn operation_without_waiters_sends_no_mutation() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let (cloud, before, nobody) = (&fixture.cloud, fixture.mutations(), Waiters::default());
    let (snapshot, features) = (snapshot_spec("snap-a", &volume), SnapshotFeatures::default());
    for outcome in [
        cloud.volumes.create(&spec("pvc-2"), &nobody).await.map(drop),
        expand(cloud, &volume, Gib(10), &nobody).await.map(drop),
        cloud.attachments.attach(&volume, &node, &nobody).await.map(drop),
        cloud.attachments.detach(&volume, &node, &nobody).await,
        cloud.snapshots.ensure(&snapshot, &features, &nobody).await.map(drop),
    ] {
        assert_error(outcome, CloudErrorKind::Abandoned);
    }
    assert_eq!(fixture.mutations(), before);
}

#[tokio::test(start_paused = true)]
async fn creation_without_waiters_starts_no_further_mutation() {
    let fixture = Fixture::new().await;
    let waiters = ebs_ec2::Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::CreateVolume);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, false);
    let spec = spec("pvc-1");
    let (ended, ()) = tokio::join!(fixture.cloud.volumes.create(&spec, &waiters), async {
        gate.reached().await;
        drop(waiter);
        gate.release();
    });
    assert!(matches!(ended, Err(CloudError { kind: CloudErrorKind::Abandoned, .. })), "{ended:?}");
    assert_eq!(fixture.mutations(), 1, "the call in flight was awaited, no other was made");
}

/// The driver rejects other types before any call.
#[tokio::test(start_paused = true)]
async fn multi_attach_requires_io2() {
    let fixture = Fixture::new().await;
    assert_error(
        fixture.create(&VolumeSpec { multi_attach: true, ..spec("pvc-1") }).await,
        CloudErrorKind::InvalidArgument,
    );
    assert_eq!(fixture.sim.calls().len(), 0);
    let io2 = VolumeSpec {
        multi_attach: true,
        volume_type: VolumeType::Io2,
        iops: IopsRequest::per_gib(50),
        ..spec("pvc-1")
    };
    assert_eq!(fixture.create(&io2).await.unwrap().multi_attach, Some(true));
}

#[tokio::test(start_paused = true)]
async fn unsupported_size_is_out_of_range() {
    let fixture = Fixture::new().await;
    for (volume_type, size) in [(VolumeType::Gp3, Gib(65_537)), (VolumeType::St1, Gib(124))] {
        let capacity = CapacityRequest { required: Some(size), fallback: size, limit: None };
        let error = assert_error(
            fixture.create(&VolumeSpec { capacity, volume_type, ..spec("pvc-1") }).await,
            CloudErrorKind::OutOfRange,
        );
        assert_mentions(&error, &["pvc-1", "required_bytes", "InvalidParameterValue"]);
    }
    assert!(fixture.volumes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn size_below_the_snapshot_is_out_of_range() {
    let fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    let snapshot = fixture.snapshot(&snapshot_spec("snap", &origin.id)).await.unwrap();
    fixture.pass(1).await;
    let source = Source::Snapshot(snapshot.id.clone());
    let sized = |required, fallback, limit| VolumeSpec {
        capacity: CapacityRequest { required, fallback: Gib(fallback), limit },
        source: source.clone(),
        ..spec("pvc-1")
    };
    for refused in [sized(Some(Gib(3)), 100, None), sized(None, 100, Some(Gib(3)))] {
        let error = assert_error(fixture.create(&refused).await, CloudErrorKind::OutOfRange);
        assert_mentions(&error, &[snapshot.id.as_str()]);
    }
    let restored = fixture.create(&sized(None, 1, None)).await.unwrap();
    assert_eq!((restored.size, restored.snapshot), (Gib(4), Some(snapshot.id)));
}

#[tokio::test(start_paused = true)]
async fn clone_is_in_the_zone_of_its_source_and_is_made_once() {
    let fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..in_zone_with_id(spec("pvc-1"), "usw2-az1") };
    let made = fixture.create(&clone).await.unwrap();
    assert_eq!((made.zone.clone(), made.source_volume.clone()), (origin.zone.clone(), Some(origin.id.clone())));
    assert_eq!(fixture.create(&clone).await.unwrap().id, made.id);
    fixture.sim.fail_next(Action::CopyVolumes, ErrorClass::LimitExceeded(Limit::Volumes), false);
    assert_eq!(fixture.create(&clone).await.unwrap().id, made.id, "found by name");
    let elsewhere = VolumeSpec { source: Source::Volume(origin.id), ..in_zone(spec("pvc-2"), "us-west-2b") };
    assert_error(fixture.create(&elsewhere).await, CloudErrorKind::InsufficientCapacity);
}

/// A deleted or expanded source causes a final error only if no clone exists.
#[tokio::test(start_paused = true)]
async fn existing_clone_is_found_after_its_source_changed() {
    let mut fixture = Fixture::new().await;
    for (n, is_gone) in [(1, true), (2, false)] {
        let origin = fixture.volume(&format!("origin-{n}")).await;
        let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..spec(&format!("pvc-{n}")) };
        let made = fixture.create(&clone).await.unwrap();
        if is_gone {
            fixture.delete(&origin.id).await.unwrap();
        } else {
            fixture.expand(&origin.id, Gib(9)).await.unwrap();
        }
        fixture.pass(20).await;
        fixture.restart();
        assert_eq!(fixture.create(&clone).await.unwrap().id, made.id, "the source is gone: {is_gone}");
    }
    assert_eq!(fixture.volumes().await.iter().filter(|v| v.source_volume_id.is_some()).count(), 2);
}

#[tokio::test(start_paused = true)]
async fn clone_keeps_the_kms_key_of_its_encrypted_source() {
    let fixture = Fixture::new().await;
    let plain = fixture.volume("plain").await;
    let secret = fixture.create(&VolumeSpec { encrypted: true, ..spec("secret") }).await.unwrap();
    let key = secret.kms_key_id.clone().unwrap();
    let clone = |name: &str, source: &VolumeId, encrypted, kms_key_id: Option<&str>| VolumeSpec {
        source: Source::Volume(source.clone()),
        encrypted,
        kms_key_id: kms_key_id.map(str::to_owned),
        ..spec(name)
    };
    let other = "9999abcd-12ab-34cd-56ef-1234567890ab";
    let error = assert_error(
        fixture.create(&clone("pvc-1", &secret.id, true, Some(other))).await,
        CloudErrorKind::InvalidArgument,
    );
    assert!([other, &key].iter().all(|name| error.message.contains(name)), "{error:?}");
    let id = key.rsplit('/').next().unwrap();
    for (number, name) in [None, Some(key.as_str()), Some(id), Some("alias/mine")].into_iter().enumerate() {
        let made = fixture.create(&clone(&format!("pvc-2-{number}"), &secret.id, true, name)).await.unwrap();
        assert_eq!(made.kms_key_id.as_ref(), Some(&key), "{name:?}");
    }
    let made = fixture.create(&clone("pvc-3", &plain.id, true, None)).await.unwrap();
    assert!(made.encrypted);
    let made = fixture.create(&clone("pvc-4", &plain.id, false, Some(&key))).await.unwrap();
    assert_eq!(made.kms_key_id.as_ref(), Some(&key));
    assert!(!fixture.create(&clone("pvc-5", &plain.id, false, None)).await.unwrap().encrypted);
}

#[tokio::test(start_paused = true)]
async fn failed_source_describe_is_not_reported_as_missing_source() {
    let fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    for (class, unauthorized) in [(ErrorClass::NotSent, false), (ErrorClass::Unauthorized, true)] {
        fixture.sim.fail_next(Action::DescribeVolumes, class, false);
        let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..spec("pvc-1") };
        let error = fixture.create(&clone).await.unwrap_err();
        assert_eq!(matches!(error.kind, CloudErrorKind::Unauthorized), unauthorized, "{error:?}");
        assert_eq!(matches!(error.kind, CloudErrorKind::Unavailable), !unauthorized, "{error:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_creation_error_maps_to_its_error_kind() {
    let fixture = Fixture::new().await;
    for (class, kind) in [
        (ErrorClass::InvalidParameter, CloudErrorKind::InvalidArgument),
        (ErrorClass::Unsupported, CloudErrorKind::InvalidArgument),
        (ErrorClass::LimitExceeded(Limit::Volumes), CloudErrorKind::LimitExceeded),
        (ErrorClass::LimitExceeded(Limit::Iops), CloudErrorKind::LimitExceeded),
        (ErrorClass::LimitExceeded(Limit::Tags), CloudErrorKind::LimitExceeded),
        (ErrorClass::InsufficientCapacity, CloudErrorKind::InsufficientCapacity),
        (ErrorClass::NotSent, CloudErrorKind::Unavailable),
        (ErrorClass::Unauthorized, CloudErrorKind::Unauthorized),
        (ErrorClass::Unauthenticated, CloudErrorKind::Unauthenticated),
        (ErrorClass::Encryption, CloudErrorKind::FailedPrecondition),
        (ErrorClass::Other, CloudErrorKind::Internal),
    ] {
        fixture.sim.fail_next(Action::CreateVolume, class, false);
        let error = assert_error(fixture.create(&in_zone(spec("pvc-1"), "us-west-2a")).await, kind);
        assert!(error.cause.as_ref().is_some_and(|e| e.class == class), "EC2's words are kept: {error:?}");
    }
    assert_eq!(fixture.volumes().await.len(), 0);
}

/// EC2 repeats its old reply for a used token, and DescribeVolumes calls may return stale results.
#[tokio::test(start_paused = true)]
async fn deleted_volume_in_an_old_reply_is_not_adopted() {
    let fixture = Fixture::with(EngineConfig { burnt_token: BurntToken::OldReply, ..EngineConfig::default() }).await;
    let old = fixture.create(&spec("pvc-1")).await.unwrap();
    fixture.delete(&old.id).await.unwrap();
    let (stale, began) = (old.clone(), Instant::now());
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() < 14 {
            volumes.retain(|v| v.id != stale.id);
            volumes.push(stale.clone());
        }
    });
    let new = fixture.create(&spec("pvc-1")).await.unwrap();
    assert_ne!(new.id, old.id);
    assert_eq!(fixture.volumes().await.iter().filter(|v| v.id == new.id.as_str()).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn creation_and_iops_probe_send_outpost_and_zone() {
    let fixture = Fixture::new().await;
    let outpost = "arn:aws:outposts:us-west-2:123456789012:outpost/op-1";
    let mut spec = in_zone(spec("pvc-1"), "us-west-2a");
    spec.iops = IopsRequest::explicit(900_000);
    spec.topology.preferred[0].outpost_arn = Some(outpost.to_owned());
    spec.topology.requisite[0].outpost_arn = Some(outpost.to_owned());
    // The creation fails because the simulated account has no such Outpost.
    fixture.create(&spec).await.unwrap_err();
    for request in [fixture.probes().remove(0), fixture.creations().remove(0)] {
        assert_eq!(request.outpost_arn.as_deref(), Some(outpost));
        assert_eq!(request.availability_zone.as_deref(), Some("us-west-2a"));
    }
}

/// The repeated request is identical, although the first zone no longer counts as full.
#[tokio::test(start_paused = true)]
async fn retry_after_an_abandoned_creation_repeats_the_request() {
    let fixture = Fixture::new().await;
    let mut wanted = in_zone(spec("pvc-1"), "us-west-2a");
    let other = in_zone(spec("pvc-1"), "us-west-2b").topology.requisite;
    wanted.topology.preferred.extend(other.clone());
    wanted.topology.requisite.extend(other);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
    fixture.create(&wanted).await.unwrap_err();
    fixture.timing(TimingOverride { create_ms: Some(5_000), ..TimingOverride::default() }).await;
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::CreateVolume);
    let (made, ()) = tokio::join!(fixture.cloud.volumes.create(&wanted, &waiters), async {
        gate.reached().await;
        gate.release();
        drop(waiter);
    });
    let made = made.unwrap();
    // After 35 min, the first zone no longer counts as full. The request itself is kept for an hour.
    fixture.pass(36 * 60).await;
    assert_eq!(fixture.create(&wanted).await.unwrap().id, made.id);
    let requests = fixture.creations();
    assert_eq!((requests.len(), &requests[2]), (3, &requests[1]));
}
