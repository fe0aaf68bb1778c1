//! ModifyVolume: size, type, IOPS, throughput and tags.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::Duration;

use ebs_cloud::{CloudErrorKind, ModifySpec, Object};
use ebs_ec2::{
    Action, ErrorClass, Gib, IopsRequest, Limit, ModificationState, ModifyVolume, Tags, VolumeId, VolumeType, Volumes,
};
use ebs_sim::api::Call;
use ebs_sim::engine::{EngineConfig, Timing, TimingOverride};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions};

fn modify_ms(modify: u64) -> TimingOverride {
    TimingOverride { modify_ms: Some(modify), optimize_ms: Some(0), ..TimingOverride::default() }
}

fn tags(entries: &[(&str, &str)]) -> Tags {
    entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

fn throughput(throughput: u32) -> ModifySpec {
    ModifySpec { throughput: NonZeroU32::new(throughput), ..ModifySpec::default() }
}

/// The size, type, IOPS and throughput of a ModifyVolume request.
type Asked = (Option<i64>, Option<String>, Option<i64>, Option<i64>);

fn requests(fixture: &Fixture) -> Vec<Asked> {
    let calls = fixture.sim.calls().into_iter();
    calls
        .filter_map(|c| match c.request {
            Call::ModifyVolume(r) => Some((r.size, r.volume_type, r.iops, r.throughput)),
            _ => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn modification_is_applied_and_its_repeat_sends_nothing() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.timing(modify_ms(9_000)).await;
    let spec = ModifySpec {
        size: Some(Gib(20)),
        iops: IopsRequest::explicit(4000),
        throughput: NonZeroU32::new(200),
        ..ModifySpec::default()
    };
    for _ in 0..2 {
        let now = fixture.modify(&volume, &spec).await.unwrap();
        assert_eq!((now.size, now.iops, now.throughput), (Gib(20), Some(4000), Some(200)));
    }
    assert_eq!(requests(&fixture), [(Some(20), None, Some(4000), Some(200))]);
}

/// The driver does not send a smaller size.
#[tokio::test(start_paused = true)]
async fn only_changed_properties_are_sent() {
    let (fixture, volume) = Fixture::with_volume().await;
    let spec = ModifySpec {
        size: Some(Gib(2)),
        volume_type: Some(VolumeType::Gp3),
        iops: IopsRequest::explicit(3000),
        throughput: NonZeroU32::new(250),
        ..ModifySpec::default()
    };
    assert_eq!(fixture.modify(&volume, &spec).await.unwrap().size, Gib(4));
    assert_eq!(requests(&fixture), [(None, None, None, Some(250))]);
}

/// A tag key that is to be both deleted and set gets its new value.
#[tokio::test(start_paused = true)]
async fn properties_change_first_then_tags_are_deleted_then_set() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.sim.clear_calls();
    let spec = ModifySpec {
        tags: tags(&[("both", "new"), ("team", "storage")]),
        deleted_tags: BTreeSet::from(["both".to_owned(), "Name".to_owned()]),
        ..throughput(250)
    };
    fixture.modify(&volume, &spec).await.unwrap();
    let changes: Vec<Action> = fixture.actions().into_iter().filter(|a| a.mutates()).collect();
    assert_eq!(changes, [Action::ModifyVolume, Action::DeleteTags, Action::CreateTags]);
    let now = fixture.cloud.volumes.get(&volume).await.unwrap().tags;
    assert_eq!((now.get("both").map(String::as_str), now.get("Name")), (Some("new"), None));
    assert_eq!(now.get("team").map(String::as_str), Some("storage"));
}

#[tokio::test(start_paused = true)]
async fn tags_need_no_modify_call_and_empty_request_only_describes() {
    let (fixture, volume) = Fixture::with_volume().await;
    let spec = ModifySpec { tags: tags(&[("team", "storage")]), ..ModifySpec::default() };
    fixture.modify(&volume, &spec).await.unwrap();
    assert_eq!(fixture.count(Action::ModifyVolume), 0);
    fixture.sim.clear_calls();
    let flag_only = ModifySpec { auto_iops: Some(true), throughput: NonZeroU32::new(0), ..ModifySpec::default() };
    fixture.modify(&volume, &flag_only).await.unwrap();
    assert_eq!(fixture.actions(), [Action::DescribeVolumes]);
}

#[tokio::test(start_paused = true)]
async fn own_tag_change_applies_although_describes_are_stale() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.serve_alone().await;
    let ratio =
        tags(&[("ebs.csi.aws.com/IOPSPerGb", "500"), ("ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify", "true")]);
    let spec = ModifySpec { tags: ratio, ..ModifySpec::default() };
    fixture.modify(&volume, &spec).await.unwrap();
    fixture
        .ec2
        .override_volumes(|volumes| volumes.iter_mut().for_each(|v| v.tags.retain(|key, _| !key.contains("IOPS"))));
    fixture.expand(&volume, Gib(10)).await.unwrap();
    assert_eq!(requests(&fixture), [(Some(10), None, Some(5000), None)]);
}

#[tokio::test(start_paused = true)]
async fn each_modification_error_maps_to_its_error_kind() {
    let (fixture, volume) = Fixture::with_volume().await;
    let missing = CloudErrorKind::NotFound(Object::Volume(volume.clone()));
    for (class, kind) in [
        (ErrorClass::InvalidParameter, CloudErrorKind::InvalidArgument),
        (ErrorClass::Unsupported, CloudErrorKind::InvalidArgument),
        (ErrorClass::LimitExceeded(Limit::ModificationSize), CloudErrorKind::LimitExceeded),
        (ErrorClass::LimitExceeded(Limit::Iops), CloudErrorKind::LimitExceeded),
        (ErrorClass::VolumeNotFound, missing.clone()),
        (ErrorClass::MalformedId, missing),
        (ErrorClass::ModificationCooldown, CloudErrorKind::FailedPrecondition),
        (ErrorClass::IncorrectState, CloudErrorKind::FailedPrecondition),
        (ErrorClass::Encryption, CloudErrorKind::FailedPrecondition),
        (ErrorClass::Unauthorized, CloudErrorKind::Unauthorized),
    ] {
        fixture.sim.fail_next(Action::ModifyVolume, class, false);
        let before = fixture.count(Action::ModifyVolume);
        assert_error(fixture.modify(&volume, &throughput(250)).await, kind);
        assert_eq!(fixture.count(Action::ModifyVolume), before + 1, "{class:?} is not repeated");
    }
}

/// If EC2 refuses a property, the request is invalid and no tag was changed. If EC2 refuses a tag after the properties
/// have changed, the error is Internal.
#[tokio::test(start_paused = true)]
async fn invalid_argument_error_means_no_property_or_tag_changed() {
    let (fixture, volume) = Fixture::with_volume().await;
    let tags = tags(&[("team", "storage")]);
    let spec = ModifySpec { tags: tags.clone(), ..throughput(90_000) };
    assert_error(fixture.modify(&volume, &spec).await, CloudErrorKind::InvalidArgument);
    assert_eq!(fixture.count(Action::CreateTags), 0);
    fixture.sim.fail_next(Action::CreateTags, ErrorClass::InvalidParameter, false);
    let spec = ModifySpec { tags, ..throughput(250) };
    let error = assert_error(fixture.modify(&volume, &spec).await, CloudErrorKind::Internal);
    assert_mentions(&error, &["properties were modified as requested"]);
}

#[tokio::test(start_paused = true)]
async fn each_tag_error_maps_to_its_error_kind() {
    let (fixture, volume) = Fixture::with_volume().await;
    let spec = ModifySpec { tags: tags(&[("team", "storage")]), ..ModifySpec::default() };
    fixture.sim.fail_next(Action::CreateTags, ErrorClass::LimitExceeded(Limit::Tags), false);
    assert_error(fixture.modify(&volume, &spec).await, CloudErrorKind::LimitExceeded);
    fixture.sim.fail_next(Action::CreateTags, ErrorClass::Ambiguous, true);
    assert_error(fixture.modify(&volume, &spec).await, CloudErrorKind::OutcomeUnknown);
    let missing = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    assert_error(fixture.modify(&missing, &spec).await, CloudErrorKind::NotFound(Object::Volume(missing)));
}

#[tokio::test(start_paused = true)]
async fn iops_above_the_limit_of_the_type_are_lowered() {
    let (fixture, volume) = Fixture::with_volume().await;
    let spec = ModifySpec { size: Some(Gib(200)), iops: IopsRequest::explicit(900_000), ..ModifySpec::default() };
    let now = fixture.modify(&volume, &spec).await.unwrap();
    assert!(now.iops.is_some_and(|iops| (3000..900_000).contains(&iops)), "{:?}", now.iops);
    let probes = fixture.probes();
    assert_eq!(probes.len(), 1);
    assert_eq!(probes[0].availability_zone.as_deref(), Some("us-west-2a"));
}

#[tokio::test(start_paused = true)]
async fn iops_are_raised_to_the_minimum_of_the_new_type() {
    let (fixture, volume) = Fixture::with_volume().await;
    let to_io2 =
        ModifySpec { volume_type: Some(VolumeType::Io2), iops: IopsRequest::per_gib(10), ..ModifySpec::default() };
    let now = fixture.modify(&volume, &to_io2).await.unwrap();
    assert_eq!((now.volume_type, now.iops), (VolumeType::Io2, Some(100)), "40 are below the type's minimum");
    assert_eq!(fixture.probes().len(), 0);
}

#[tokio::test(start_paused = true)]
async fn failed_modification_is_reported_with_ec2s_reason() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.serve_alone().await;
    fixture.timing(modify_ms(60_000)).await;
    fixture.ec2.override_modifications(|modifications| {
        for modification in modifications {
            modification.state = ModificationState::Failed;
            modification.status_message = Some("no such disk".to_owned());
        }
    });
    let began = Instant::now();
    let error = assert_error(fixture.modify(&volume, &throughput(250)).await, CloudErrorKind::Internal);
    assert_mentions(&error, &["no such disk"]);
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn expansion_succeeds_only_after_the_modification() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.timing(modify_ms(30_000)).await;
    fixture.abandon_expand(&volume, Gib(10)).await;
    let began = Instant::now();
    fixture.ec2.hide_modifications(14);
    fixture.expand(&volume, Gib(10)).await.unwrap();
    assert!(began.elapsed() >= Duration::from_secs(25), "{:?}", began.elapsed());
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn modification_of_another_process_is_awaited() {
    let fixture = Fixture::with(EngineConfig { modifications_per_day: Some(1), ..EngineConfig::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    fixture.timing(modify_ms(20_000)).await;
    let request = ModifyVolume {
        volume: volume.id.clone(),
        size: Some(Gib(10)),
        volume_type: None,
        iops: None,
        throughput: None,
    };
    fixture.sim.modify_volume(&request).await.expect("it can be modified");
    let began = Instant::now();
    let old = volume.size;
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed() < Duration::from_secs(5) {
            volumes.iter_mut().for_each(|v| v.size = old);
        }
    });
    fixture.ec2.hide_modifications(5);
    assert_eq!(fixture.expand(&volume.id, Gib(10)).await.unwrap(), Gib(10));
    assert!(began.elapsed() >= Duration::from_secs(20), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn expansion_succeeds_once_the_modification_is_optimizing() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.serve_alone().await;
    fixture.timing(TimingOverride { optimize_ms: Some(3_600_000), ..modify_ms(9_000) }).await;
    let began = Instant::now();
    assert_eq!(fixture.expand(&volume, Gib(10)).await.unwrap(), Gib(10));
    assert!((9..20).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn unknown_modification_state_is_in_progress_after_15_s() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.override_modifications(|found| {
        found.iter_mut().for_each(|m| m.state = ModificationState::Other("queued".to_owned()));
    });
    fixture.timing(modify_ms(1_000)).await;
    let began = Instant::now();
    let error = fixture.expand(&volume, Gib(10)).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress) && error.message.contains("queued"), "{error:?}");
    assert!((15..40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    let began = Instant::now();
    assert_eq!(fixture.expand(&volume, Gib(10)).await.unwrap(), Gib(10));
    assert!(began.elapsed().as_secs() < 25, "{:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::ModifyVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn modification_limit_error_names_the_next_possible_time() {
    let fixture = Fixture::with(EngineConfig { timing: Timing::Realistic, ..EngineConfig::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    fixture.expand(&volume.id, Gib(5)).await.unwrap();
    let optimizing = assert_error(fixture.expand(&volume.id, Gib(6)).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&optimizing, &["still being optimized"]);
    for gib in 6..9 {
        fixture.pass(120).await;
        fixture.expand(&volume.id, Gib(gib)).await.unwrap();
    }
    fixture.pass(120).await;
    let modifications = fixture.count(Action::ModifyVolume);
    let fifth = assert_error(fixture.expand(&volume.id, Gib(20)).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&fifth, &["the next modification is possible at 20"]);
    assert_eq!(fixture.count(Action::ModifyVolume), modifications + 1, "a refusal for the rate is never repeated");
}

#[tokio::test(start_paused = true)]
async fn modification_with_a_lost_reply_is_not_repeated() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.timing(TimingOverride { optimize_ms: Some(60_000), ..modify_ms(5_000) }).await;
    fixture.sim.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, true);
    assert_eq!(fixture.expand(&volume, Gib(10)).await.unwrap(), Gib(10));
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
    fixture.pass(120).await;
    fixture.sim.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, false);
    assert_error(fixture.expand(&volume, Gib(20)).await, CloudErrorKind::OutcomeUnknown);
    assert_eq!(fixture.expand(&volume, Gib(20)).await.unwrap(), Gib(20));
}

/// An unsupported size is OutOfRange.
#[tokio::test(start_paused = true)]
async fn each_expansion_error_maps_to_its_error_kind() {
    let (fixture, volume) = Fixture::with_volume().await;
    let error = assert_error(fixture.expand(&volume, Gib(1_000_000)).await, CloudErrorKind::OutOfRange);
    assert!(error.message.contains("required_bytes rounds up to 1000000 GiB"), "{error}");
    let limit = ErrorClass::LimitExceeded(Limit::ModificationSize);
    fixture.sim.fail_next(Action::ModifyVolume, limit, false);
    assert_error(fixture.expand(&volume, Gib(10)).await, CloudErrorKind::LimitExceeded);
}
