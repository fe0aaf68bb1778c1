use ebs_cloud::{CapacityRequest, CloudError, CloudErrorKind, Ensured, Object, Source, VolumeSpec, VolumeState};
use ebs_ec2::{Action, ErrorClass, Limit};
use ebs_sim::engine::{BurntToken, EngineConfig, TimingOverride};
use ebs_sim::iam::Extra;
use ebs_types::{Gib, IopsRequest, SnapshotId, VolumeId, VolumeType, Waiters};

use crate::fixture::{Fixture, in_zone, in_zone_with_id, message_of, request, spec, zone};

/// CreateVolume is ordered without looking for the name first, and a repeat is the same volume.
#[tokio::test(start_paused = true)]
async fn a_repeated_creation_is_one_volume_and_costs_no_describe_by_name() {
    let fixture = Fixture::new().await;
    let first = fixture.create(&spec("pvc-1")).await.unwrap();
    let again = fixture.create(&spec("pvc-1")).await.unwrap();
    assert_eq!(first.id, again.id);
    assert_eq!(first.state, VolumeState::Available);
    assert_eq!(fixture.volumes().await.len(), 1);
    assert_eq!(fixture.sim.calls()[1].action, Action::CreateVolume, "only the zones are asked for before the creation");
    assert_eq!(fixture.count(Action::DescribeVolumes), 2, "one look for each creation, for its state");
}

/// A repeat by another process is the same volume.
#[tokio::test(start_paused = true)]
async fn a_creation_after_a_restart_is_the_same_volume() {
    let mut fixture = Fixture::new().await;
    let first = fixture.create(&spec("pvc-1")).await.unwrap();
    fixture.restart();
    assert_eq!(fixture.create(&spec("pvc-1")).await.unwrap().id, first.id);
    assert_eq!(fixture.volumes().await.len(), 1);
}

/// Other content under a used volume name is AlreadyExists, every time, and never a second volume.
#[tokio::test(start_paused = true)]
async fn other_content_under_a_used_name_already_exists_every_time() {
    let fixture = Fixture::new().await;
    let first = fixture.create(&spec("pvc-1")).await.unwrap();
    let capacity = CapacityRequest { required: Some(Gib(8)), fallback: Gib(8), limit: None };
    let other = VolumeSpec { capacity, ..spec("pvc-1") };
    for _ in 0..3 {
        let error = fixture.create(&other).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::AlreadyExists), "{error:?}");
        assert!(
            message_of(&error).contains(first.id.as_str()) && message_of(&error).contains("its size is 4 GiB"),
            "{}",
            message_of(&error)
        );
    }
    assert_eq!(
        fixture.create(&spec("pvc-1")).await.unwrap().id,
        first.id,
        "the original content still finds its volume"
    );
    assert_eq!(fixture.volumes().await.len(), 1);
}

/// A creation whose reply was lost is looked for by name and adopted, not ordered again.
#[tokio::test(start_paused = true)]
async fn a_creation_whose_reply_was_lost_finds_its_volume_without_a_second_request() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, true);
    let made = fixture.cloud.volumes.create(&spec("pvc-1"), &fixture.waiters).await.unwrap();
    assert!(matches!(made, Ensured::Existing(_)));
    assert_eq!(fixture.creations().len(), 1);
    assert_eq!(fixture.volumes().await.len(), 1);
}

/// After an unclear answer the same order with the same token goes out again only when 15 s have shown no volume.
#[tokio::test(start_paused = true)]
async fn an_unclear_answer_without_a_volume_is_requested_again_only_after_fifteen_seconds_and_alike() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, false);
    fixture.create(&spec("pvc-1")).await.unwrap();
    let requests = fixture.creations();
    assert_eq!(requests.len(), 2);
    assert_eq!(requests[0], requests[1], "token included");
    let at: Vec<_> = fixture.sim.calls().iter().filter(|c| c.action == Action::CreateVolume).map(|c| c.at).collect();
    assert!(at[1].duration_since(at[0]).unwrap().as_secs() >= 15, "{at:?}");
}

/// A volume that looks do not show yet is not ordered twice.
#[tokio::test(start_paused = true)]
async fn a_volume_that_describes_do_not_show_yet_is_not_requested_twice() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, true);
    let began = tokio::time::Instant::now();
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() < 14 {
            volumes.clear();
        }
    });
    fixture.create(&spec("pvc-1")).await.unwrap();
    assert_eq!(fixture.creations().len(), 1);
}

/// A full quota adopts the volume of that name if it is there and compatible, else it is LimitExceeded.
#[tokio::test(start_paused = true)]
async fn a_full_quota_finds_the_volume_that_filled_it_or_says_so() {
    let config = EngineConfig { max_volumes: 3, ..EngineConfig::default() };
    let fixture = Fixture::with(config).await;
    let volume = fixture.create(&spec("pvc-1")).await.unwrap();
    let error = fixture.create(&spec("pvc-2")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::LimitExceeded), "{error:?}");
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::LimitExceeded(Limit::Volumes), false);
    assert_eq!(fixture.create(&spec("pvc-1")).await.unwrap().id, volume.id);
}

/// A volume without our cluster tags is never adopted.
#[tokio::test(start_paused = true)]
async fn a_volume_of_another_cluster_is_never_adopted() {
    let fixture = Fixture::new().await;
    let mut theirs = spec("pvc-1");
    theirs.tags.remove("kubernetes.io/cluster/blue");
    theirs.tags.insert("kubernetes.io/cluster/green".into(), "owned".into());
    let stranger = fixture.stranger(request(&theirs, "their-token")).await;
    for class in [ErrorClass::LimitExceeded(Limit::Volumes), ErrorClass::IdempotentMismatch, ErrorClass::Ambiguous] {
        fixture.sim.fail_next(Action::CreateVolume, class, false);
        let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::AlreadyExists), "{class:?}: {error:?}");
        assert!(message_of(&error).contains(stranger.as_str()), "{}", message_of(&error));
    }
    assert_eq!(fixture.volumes().await.len(), 1);
}

/// Several volumes of one name are named in the error and none is taken.
#[tokio::test(start_paused = true)]
async fn several_volumes_of_one_name_are_named_and_none_is_taken() {
    let fixture = Fixture::new().await;
    let ids =
        [fixture.stranger(request(&spec("pvc-1"), "a")).await, fixture.stranger(request(&spec("pvc-1"), "b")).await];
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::IdempotentMismatch, false);
    let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::AlreadyExists), "{error:?}");
    assert!(ids.iter().all(|id| message_of(&error).contains(id.as_str())), "{}", message_of(&error));
}

/// A name whose volume was deleted gets a new volume under the next token, whichever answer EC2 gives to a burnt one.
#[tokio::test(start_paused = true)]
async fn a_name_whose_volume_was_deleted_gets_a_new_volume_under_the_next_token() {
    for burnt_token in [BurntToken::Mismatch, BurntToken::OldReply] {
        let mut fixture = Fixture::with(EngineConfig { burnt_token, ..EngineConfig::default() }).await;
        let old = fixture.create(&spec("pvc-1")).await.unwrap();
        fixture.cloud.volumes.delete(&old.id, &fixture.waiters).await.unwrap();
        fixture.pass(60).await;
        let new = fixture.create(&spec("pvc-1")).await.unwrap();
        assert_ne!(new.id, old.id);
        let tokens: Vec<_> = fixture.creations().iter().filter_map(|c| c.client_token.clone()).collect();
        assert_eq!(tokens.first(), tokens.get(1));
        assert_ne!(tokens.first(), tokens.last());
        // A process that has forgotten the counter finds the new volume all the same.
        fixture.restart();
        fixture.pass(60).await;
        assert_eq!(fixture.create(&spec("pvc-1")).await.unwrap().id, new.id);
    }
}

/// The token changes only when 15 s have shown no live volume of the name.
#[tokio::test(start_paused = true)]
async fn the_token_changes_only_when_fifteen_seconds_have_shown_no_volume() {
    let fixture = Fixture::new().await;
    fixture.stranger(request(&spec("pvc-1"), "token-of-another-process")).await;
    let began = tokio::time::Instant::now();
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() < 14 {
            volumes.clear();
        }
    });
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::IdempotentMismatch, false);
    fixture.create(&spec("pvc-1")).await.unwrap();
    assert_eq!(fixture.volumes().await.len(), 1, "the volume of the other process is adopted once it is seen");
}

/// A volume that vanishes under a KMS key that cannot be used fails with that hint and the next attempt takes the next
/// token.
#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_used_is_named_and_the_next_attempt_takes_the_next_token() {
    let fixture = Fixture::new().await;
    fixture.sim.declare(Extra::Kms);
    let spec = VolumeSpec { encrypted: true, kms_key_id: Some("no-such-key".into()), ..spec("pvc-1") };
    for _ in 0..2 {
        let error = fixture.create(&spec).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{error:?}");
        assert!(message_of(&error).contains("KMS key no-such-key"), "{}", message_of(&error));
    }
    let requests = fixture.creations();
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].client_token, requests[1].client_token);
}

/// A volume in state error fails the creation and is named.
#[tokio::test(start_paused = true)]
async fn a_volume_in_state_error_fails_and_is_named() {
    let fixture = Fixture::new().await;
    fixture.ec2.override_volumes(|volumes| volumes.iter_mut().for_each(|v| v.state = VolumeState::Error));
    let began = tokio::time::Instant::now();
    let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{error:?}");
    assert!(
        began.elapsed().as_secs() < 20,
        "no longer than a look for another volume of the name: {:?}",
        began.elapsed()
    );
    assert!(message_of(&error).contains("state error"), "{}", message_of(&error));
    fixture.ec2.clear_overrides();
    fixture.create(&spec("pvc-1")).await.unwrap();
    let requests = fixture.creations();
    assert_ne!(requests[0].client_token, requests[1].client_token);
}

/// Throttles and failed looks delay a creation and are no errors of it.
#[tokio::test(start_paused = true)]
async fn throttles_and_lost_describes_cost_time_but_are_no_errors() {
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

/// A creation that EC2 still works on when the bound is reached ends with a non-final error.
#[tokio::test(start_paused = true)]
async fn a_creation_that_takes_too_long_ends_without_a_final_error() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(600_000), ..TimingOverride::default() }).await;
    let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    assert_eq!(fixture.creations().len(), 1);
}

/// A look that EC2 refuses after a mutation leaves the outcome unknown, never final.
#[tokio::test(start_paused = true)]
async fn a_describe_that_is_refused_leaves_the_outcome_unknown() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Unauthorized, false);
    let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutcomeUnknown), "{error:?}");
}

/// After an attempt of unknown end a refusal is final only when a look proves that there is no volume.
#[tokio::test(start_paused = true)]
async fn after_an_attempt_of_unknown_end_a_refusal_is_final_only_when_there_is_no_volume() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::DescribeVolumes, ErrorClass::Unauthorized, false);
    fixture.create(&spec("pvc-1")).await.unwrap_err();
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    fixture.create(&spec("pvc-1")).await.expect("the volume of the first attempt is found");
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    let error = fixture.create(&spec("pvc-2")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Unauthorized), "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn an_unreachable_ec2_is_unavailable() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::NotSent, false);
    let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Unavailable), "{error:?}");
}

/// The zone returned is the one that EC2 reports, also when only a zone id was asked for.
#[tokio::test(start_paused = true)]
async fn the_zone_is_the_one_that_ec2_reports_also_when_only_its_id_was_asked_for() {
    let fixture = Fixture::new().await;
    let volume = fixture.create(&in_zone_with_id(spec("pvc-1"), "usw2-az2")).await.unwrap();
    assert_eq!(volume.zone, Some(zone("us-west-2b")));
    let request = &fixture.creations()[0];
    assert_eq!(
        (request.availability_zone.as_deref(), request.availability_zone_id.as_deref()),
        (None, Some("usw2-az2"))
    );
}

/// An open zone is an available availability zone chosen by the hash of the name.
#[tokio::test(start_paused = true)]
async fn an_open_zone_is_an_availability_zone_by_the_hash_of_the_name() {
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

/// After a zone without room the same name comes with another allowed zone, and the error says what was tried.
#[tokio::test(start_paused = true)]
async fn after_a_zone_without_room_the_name_comes_with_another_zone() {
    let fixture = Fixture::new().await;
    let mut seen = Vec::new();
    for tried in 1..=3 {
        fixture.sim.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
        let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::InsufficientCapacity), "{error:?}");
        assert_eq!(message_of(&error).matches("us-west-2").count(), tried, "{}", message_of(&error));
        seen.push(fixture.creations().last().unwrap().availability_zone.clone().unwrap());
    }
    seen.sort();
    seen.dedup();
    assert_eq!(seen.len(), 3, "each attempt asked for another zone");
    fixture.create(&spec("pvc-1")).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_required_zone_without_room_is_asked_for_again() {
    let fixture = Fixture::new().await;
    let spec = in_zone(spec("pvc-1"), "us-west-2b");
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
    fixture.create(&spec).await.unwrap_err();
    assert_eq!(fixture.create(&spec).await.unwrap().zone, Some(zone("us-west-2b")));
}

/// An operation that nobody waits for starts no mutation.
#[tokio::test(start_paused = true)]
async fn an_operation_that_nobody_waits_for_starts_nothing() {
    let fixture = Fixture::new().await;
    let nobody = ebs_types::Waiters::default();
    let error = fixture.cloud.volumes.create(&spec("pvc-1"), &nobody).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::Abandoned), "{error:?}");
    assert_eq!(fixture.mutations(), 0);
}

/// A mutation in flight is awaited when the last waiter leaves, and none follows it.
#[tokio::test(start_paused = true)]
async fn a_creation_that_loses_its_last_waiter_starts_nothing_further() {
    let fixture = Fixture::new().await;
    let waiters = ebs_types::Waiters::default();
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

/// A volume for several nodes must be io2; refused before any call.
#[tokio::test(start_paused = true)]
async fn several_nodes_for_one_volume_need_io2() {
    let fixture = Fixture::new().await;
    let error = fixture.create(&VolumeSpec { multi_attach: true, ..spec("pvc-1") }).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InvalidArgument), "{error:?}");
    assert_eq!(fixture.sim.calls().len(), 0);
    let io2 = VolumeSpec {
        multi_attach: true,
        volume_type: VolumeType::Io2,
        iops: IopsRequest::per_gib(50),
        ..spec("pvc-1")
    };
    assert_eq!(fixture.create(&io2).await.unwrap().multi_attach, Some(true));
}

/// The IOPS limit is probed only when IOPS are asked for, with the ownership tags, and the answer is kept.
#[tokio::test(start_paused = true)]
async fn the_limit_of_iops_is_asked_for_only_with_iops_and_once() {
    let fixture = Fixture::new().await;
    fixture.create(&in_zone(spec("pvc-1"), "us-west-2a")).await.unwrap();
    assert_eq!(fixture.probes().len(), 0);
    for name in ["pvc-2", "pvc-3"] {
        let capacity = CapacityRequest { required: Some(Gib(200)), fallback: Gib(200), limit: None };
        let greedy = VolumeSpec { iops: IopsRequest::explicit(900_000), capacity, ..in_zone(spec(name), "us-west-2a") };
        let volume = fixture.create(&greedy).await.unwrap();
        assert!(volume.iops.is_some_and(|iops| (3000..900_000).contains(&iops)), "{:?}", volume.iops);
    }
    let probes = fixture.probes();
    assert_eq!(probes.len(), 1, "the answer is kept");
    let tags: Vec<_> =
        probes[0].tag_specifications.iter().flat_map(|s| &s.tags).map(|t| (t.key.as_str(), t.value.as_str())).collect();
    for tag in [
        ("CSIVolumeName", "IopsLimitDryRun"),
        ("ebs.csi.aws.com/cluster", "true"),
        ("kubernetes.io/cluster/blue", "owned"),
    ] {
        assert!(tags.contains(&tag), "{tags:?}");
    }
}

/// Without an answer EC2 is asked for what the request names, and retries of a name send the same computed request.
#[tokio::test(start_paused = true)]
async fn a_probe_without_answer_lowers_nothing_and_a_retry_sends_the_same() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::NotSent, false);
    let greedy = VolumeSpec {
        iops: IopsRequest::explicit(70_000),
        capacity: CapacityRequest { required: Some(Gib(200)), fallback: Gib(200), limit: None },
        ..in_zone(spec("pvc-1"), "us-west-2a")
    };
    fixture.create(&greedy).await.unwrap_err();
    // Meanwhile EC2 would name its limit; the request of this name stays what it was.
    fixture.pass(600).await;
    fixture.create(&greedy).await.unwrap();
    let requests = fixture.creations();
    assert_eq!(requests[0].iops, Some(70_000));
    assert_eq!(requests[0], requests[1]);
}

/// A missing source snapshot or volume is named.
#[tokio::test(start_paused = true)]
async fn a_missing_source_is_named() {
    let fixture = Fixture::new().await;
    let snapshot = SnapshotId::parse("snap-0123456789abcdef0").unwrap();
    let volume = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    for (source, object) in [
        (Source::Snapshot(snapshot.clone()), Object::Snapshot(snapshot)),
        (Source::Volume(volume.clone()), Object::Volume(volume)),
    ] {
        match fixture.create(&VolumeSpec { source, ..spec("pvc-1") }).await.unwrap_err() {
            CloudError { kind: CloudErrorKind::SourceNotFound(missing), .. } => assert_eq!(missing, object),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(fixture.volumes().await.len(), 0);
}

/// A size that EC2 does not give the type is OutOfRange, with EC2's own words; nothing is made.
#[tokio::test(start_paused = true)]
async fn a_size_that_the_type_does_not_have_is_out_of_range_with_ec2s_words() {
    let fixture = Fixture::new().await;
    for (volume_type, size) in [(VolumeType::Gp3, Gib(65_537)), (VolumeType::St1, Gib(124))] {
        let capacity = CapacityRequest { required: Some(size), fallback: size, limit: None };
        let error = fixture.create(&VolumeSpec { capacity, volume_type, ..spec("pvc-1") }).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::OutOfRange), "{error:?}");
        let told = message_of(&error);
        assert!(told.contains("required_bytes") && told.contains("InvalidParameterValue"), "{told}");
    }
    assert!(fixture.volumes().await.is_empty());
}

/// A size below the snapshot is OutOfRange, naming the snapshot.
#[tokio::test(start_paused = true)]
async fn a_size_below_the_snapshot_is_out_of_range_and_an_open_size_holds_it() {
    let fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    let snapshot = fixture
        .cloud
        .snapshots
        .create(&crate::fixture::snapshot_spec("snap", &origin.id), &fixture.waiters)
        .await
        .unwrap()
        .into_inner();
    fixture.pass(1).await;
    let source = Source::Snapshot(snapshot.id.clone());
    let sized = |required, fallback, limit| VolumeSpec {
        capacity: CapacityRequest { required, fallback: Gib(fallback), limit },
        source: source.clone(),
        ..spec("pvc-1")
    };
    for refused in [sized(Some(Gib(3)), 100, None), sized(None, 100, Some(Gib(3)))] {
        let error = fixture.create(&refused).await.unwrap_err();
        assert!(matches!(error.kind, CloudErrorKind::OutOfRange), "{error:?}");
        assert!(message_of(&error).contains(snapshot.id.as_str()), "{}", message_of(&error));
    }
    let restored = fixture.create(&sized(None, 1, None)).await.unwrap();
    assert_eq!((restored.size, restored.snapshot), (Gib(4), Some(snapshot.id)));
}

/// A clone is in the zone of its source; a zone-id requirement is understood; an excluded zone is InsufficientCapacity.
#[tokio::test(start_paused = true)]
async fn a_clone_is_in_the_zone_of_its_source_and_repeats_are_one_clone() {
    let fixture = Fixture::new().await;
    let origin = fixture.volume("origin").await;
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..in_zone_with_id(spec("pvc-1"), "usw2-az1") };
    let made = fixture.create(&clone).await.unwrap();
    assert_eq!((made.zone.clone(), made.source_volume.clone()), (origin.zone.clone(), Some(origin.id.clone())));
    assert_eq!(fixture.create(&clone).await.unwrap().id, made.id);
    fixture.sim.fail_next(Action::CopyVolumes, ErrorClass::LimitExceeded(Limit::Volumes), false);
    assert_eq!(fixture.create(&clone).await.unwrap().id, made.id, "found by name");
    let elsewhere = VolumeSpec { source: Source::Volume(origin.id), ..in_zone(spec("pvc-2"), "us-west-2b") };
    let error = fixture.create(&elsewhere).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InsufficientCapacity), "{error:?}");
}

/// A source that is gone or has grown is no final error before it is proven that the clone was not made.
#[tokio::test(start_paused = true)]
async fn a_clone_that_was_made_is_found_also_when_its_source_has_gone_or_grown() {
    let mut fixture = Fixture::new().await;
    for (n, is_gone) in [(1, true), (2, false)] {
        let origin = fixture.volume(&format!("origin-{n}")).await;
        let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..spec(&format!("pvc-{n}")) };
        let made = fixture.create(&clone).await.unwrap();
        if is_gone {
            fixture.cloud.volumes.delete(&origin.id, &fixture.waiters).await.unwrap();
        } else {
            fixture.cloud.volumes.expand(&origin.id, Gib(9), &fixture.waiters).await.unwrap();
        }
        fixture.pass(20).await;
        fixture.restart();
        assert_eq!(fixture.create(&clone).await.unwrap().id, made.id, "the source is gone: {is_gone}");
    }
    assert_eq!(fixture.volumes().await.iter().filter(|v| v.source_volume_id.is_some()).count(), 2);
}

/// The clone of an encrypted volume has its source's key, and another key is refused; the clone of an unencrypted volume is
/// encrypted on demand.
#[tokio::test(start_paused = true)]
async fn a_clone_has_the_key_of_its_encrypted_source() {
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
    let error = fixture.create(&clone("pvc-1", &secret.id, true, Some(other))).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InvalidArgument), "{error:?}");
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

/// A clone source that cannot be looked at is not a missing one.
#[tokio::test(start_paused = true)]
async fn a_source_that_cannot_be_looked_at_is_not_a_missing_source() {
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
async fn concurrent_creations_of_many_names_are_that_many_volumes() {
    let fixture = Fixture::new().await;
    let specs: Vec<_> = (0..40).map(|n| spec(&format!("pvc-{n}"))).collect();
    let made = made_at_once(&fixture, &specs).await;
    assert_eq!(made, 40);
    assert_eq!(fixture.volumes().await.len(), 40);
}

/// Runs all at once and counts the successes.
async fn made_at_once(fixture: &Fixture, specs: &[VolumeSpec]) -> usize {
    let mut running = tokio::task::JoinSet::new();
    for spec in specs {
        let (cloud, waiters, spec) = (fixture.cloud.clone(), fixture.waiters.clone(), spec.clone());
        running.spawn(async move { cloud.volumes.create(&spec, &waiters).await.is_ok() });
    }
    running.join_all().await.into_iter().filter(|ok| *ok).count()
}

/// A bad parameter is InvalidArgument, and the user is told the volume's name, EC2's code and its message; nothing is made.
#[tokio::test(start_paused = true)]
async fn a_bad_parameter_is_an_invalid_argument_with_ec2s_own_words() {
    let fixture = Fixture::new().await;
    let error =
        fixture.create(&VolumeSpec { throughput: std::num::NonZero::new(90_000), ..spec("pvc-1") }).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InvalidArgument), "{error:?}");
    let ec2 = error.cause.as_ref().unwrap();
    let told = message_of(&error);
    for part in ["pvc-1", "InvalidParameter", ec2.code.as_deref().expect("EC2 gives one"), ec2.message.as_str()] {
        assert!(told.contains(part), "{part}: {told}");
    }
    assert!(fixture.volumes().await.is_empty());
}

/// Each refusal of a creation keeps its meaning: parameter, quota, room, rights, credentials, key, other.
#[tokio::test(start_paused = true)]
async fn the_refusals_of_a_creation_keep_their_meaning() {
    let fixture = Fixture::new().await;
    type Fits = fn(&CloudError) -> bool;
    let argument: Fits = |e| matches!(e.kind, CloudErrorKind::InvalidArgument);
    let limit: Fits = |e| matches!(e.kind, CloudErrorKind::LimitExceeded);
    let room: Fits = |e| matches!(e.kind, CloudErrorKind::InsufficientCapacity);
    let rights: Fits = |e| matches!(e.kind, CloudErrorKind::Unauthorized);
    let credentials: Fits = |e| matches!(e.kind, CloudErrorKind::Unauthenticated);
    let state: Fits = |e| matches!(e.kind, CloudErrorKind::FailedPrecondition);
    let other: Fits = |e| matches!(e.kind, CloudErrorKind::Internal);
    for (class, fits) in [
        (ErrorClass::InvalidParameter, argument),
        (ErrorClass::Unsupported, argument),
        (ErrorClass::LimitExceeded(Limit::Volumes), limit),
        (ErrorClass::LimitExceeded(Limit::Iops), limit),
        (ErrorClass::LimitExceeded(Limit::Tags), limit),
        (ErrorClass::InsufficientCapacity, room),
        (ErrorClass::Unauthorized, rights),
        (ErrorClass::Unauthenticated, credentials),
        (ErrorClass::Encryption, state),
        (ErrorClass::Other, other),
    ] {
        fixture.sim.fail_next(Action::CreateVolume, class, false);
        let error = fixture.create(&in_zone(spec("pvc-1"), "us-west-2a")).await.unwrap_err();
        assert!(fits(&error), "{class:?}: {error:?}");
        assert!(error.cause.as_ref().is_some_and(|e| e.class == class), "EC2's words are kept: {error:?}");
    }
    assert_eq!(fixture.volumes().await.len(), 0);
}

/// A volume that is deleted while it is being created fails fast and is made anew under the next token.
#[tokio::test(start_paused = true)]
async fn a_volume_deleted_while_it_is_created_is_made_anew_under_the_next_token() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(3_000), ..TimingOverride::default() }).await;
    let mut first = None;
    fixture.ec2.override_volumes(move |volumes| {
        for volume in volumes {
            let first = first.get_or_insert_with(|| volume.id.clone());
            if volume.id == *first {
                volume.state = VolumeState::Deleting;
            }
        }
    });
    let began = tokio::time::Instant::now();
    fixture.create(&spec("pvc-1")).await.unwrap();
    assert!(began.elapsed().as_secs() < 15, "what is deleting fails fast: {:?}", began.elapsed());
    let requests = fixture.creations();
    assert_eq!(requests.len(), 2);
    assert_ne!(requests[0].client_token, requests[1].client_token);
}

/// The old reply of a burnt token is not taken for a volume that this process has just deleted, whatever looks show.
#[tokio::test(start_paused = true)]
async fn the_answer_to_an_old_token_is_not_taken_for_a_volume_that_we_have_just_deleted() {
    let fixture = Fixture::with(EngineConfig { burnt_token: BurntToken::OldReply, ..EngineConfig::default() }).await;
    let old = fixture.create(&spec("pvc-1")).await.unwrap();
    fixture.cloud.volumes.delete(&old.id, &fixture.waiters).await.unwrap();
    let (stale, began) = (old.clone(), tokio::time::Instant::now());
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

/// An Outpost travels with the zone of its term, in the creation and in the question for its IOPS limit.
#[tokio::test(start_paused = true)]
async fn an_outpost_travels_with_its_zone_and_its_own_limits() {
    let fixture = Fixture::new().await;
    let outpost = "arn:aws:outposts:us-west-2:123456789012:outpost/op-1";
    let mut spec = in_zone(spec("pvc-1"), "us-west-2a");
    spec.iops = IopsRequest::explicit(900_000);
    spec.topology.preferred[0].outpost_arn = Some(outpost.to_owned());
    spec.topology.requisite[0].outpost_arn = Some(outpost.to_owned());
    // The simulated account has no Outpost.
    fixture.create(&spec).await.unwrap_err();
    for request in [fixture.probes().remove(0), fixture.creations().remove(0)] {
        assert_eq!(request.outpost_arn.as_deref(), Some(outpost));
        assert_eq!(request.availability_zone.as_deref(), Some("us-west-2a"));
    }
}

/// A topology term with zone and zone id sends the zone only.
#[tokio::test(start_paused = true)]
async fn a_term_with_zone_and_zone_id_sends_the_zone_only() {
    let fixture = Fixture::new().await;
    let mut spec = in_zone(spec("pvc-1"), "us-west-2a");
    for term in spec.topology.preferred.iter_mut().chain(&mut spec.topology.requisite) {
        term.zone_id = Some(ebs_types::ZoneId::parse("usw2-az1").unwrap());
    }
    fixture.create(&spec).await.unwrap();
    let request = &fixture.creations()[0];
    assert_eq!(
        (request.availability_zone.as_deref(), request.availability_zone_id.as_deref()),
        (Some("us-west-2a"), None)
    );
}

/// The IOPS limit is asked for only when more is wanted than the type has everywhere, and by one question for all who
/// want it.
#[tokio::test(start_paused = true)]
async fn iops_that_every_place_allows_are_not_asked_about_and_greedy_ones_once_for_all() {
    let fixture = Fixture::new().await;
    let modest = VolumeSpec { iops: IopsRequest::explicit(16_000), ..in_zone(spec("pvc-1"), "us-west-2a") };
    let capacity = CapacityRequest { required: Some(Gib(200)), fallback: Gib(200), limit: None };
    fixture.create(&VolumeSpec { capacity: capacity.clone(), ..modest }).await.unwrap();
    assert_eq!(fixture.probes().len(), 0);
    let greedy = |name: &str| VolumeSpec {
        iops: IopsRequest::explicit(900_000),
        capacity: capacity.clone(),
        ..in_zone(spec(name), "us-west-2a")
    };
    let specs: Vec<_> = (0..8).map(|n| greedy(&format!("greedy-{n}"))).collect();
    assert_eq!(made_at_once(&fixture, &specs).await, 8);
    assert_eq!(fixture.probes().len(), 1);
}

/// A region that lists no zone is an error of the request.
#[tokio::test(start_paused = true)]
async fn a_region_that_lists_no_zone_is_an_error_and_no_end_of_the_process() {
    let fixture = Fixture::new().await;
    fixture.ec2.hide_zones();
    let error = fixture.create(&spec("pvc-1")).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InsufficientCapacity), "{error:?}");
}

/// A client that left before its volume was there comes back for it: the request is the same, whatever the zones are like now.
#[tokio::test(start_paused = true)]
async fn a_creation_that_nobody_heard_of_is_repeated_as_it_was() {
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
    let made = made.unwrap().into_inner();
    // By now the first zone counts as one with room: it is passed over for 35 min. The request itself is kept for an hour.
    fixture.pass(36 * 60).await;
    assert_eq!(fixture.create(&wanted).await.unwrap().id, made.id);
    let requests = fixture.creations();
    assert_eq!((requests.len(), &requests[2]), (3, &requests[1]));
}
