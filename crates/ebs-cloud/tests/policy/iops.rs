//! Which IOPS the driver requests, with and without a known maximum of the zone.

use std::collections::BTreeMap;
use std::sync::Arc;

use ebs_cloud::{CapacityRequest, CloudErrorKind, ModifySpec, VolumeSpec};
use ebs_ec2::{Action, ErrorClass, Gib, IopsRequest, Limit, Tags, VolumeType};
use ebs_sim::api::Call;
use ebs_sim::faults::{Effect, Rule};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, in_zone, spec};

/// The answers to a dry run that do not name EC2's maximum.
const NO_ANSWER: [ErrorClass; 4] =
    [ErrorClass::Throttled, ErrorClass::NotSent, ErrorClass::Ambiguous, ErrorClass::Unauthorized];

fn gp3(name: &str, gib: u32, iops: u32) -> VolumeSpec {
    let capacity = CapacityRequest { required: Some(Gib(gib)), fallback: Gib(gib), limit: None };
    VolumeSpec { iops: IopsRequest::explicit(iops), capacity, ..in_zone(spec(name), "us-west-2a") }
}

fn asked(fixture: &Fixture) -> Vec<Option<i64>> {
    fixture.creations().iter().map(|request| request.iops).collect()
}

fn modified(fixture: &Fixture) -> Vec<Option<i64>> {
    let calls = fixture.sim.calls().into_iter();
    calls.filter_map(|c| if let Call::ModifyVolume(request) = c.request { Some(request.iops) } else { None }).collect()
}

fn tags(entries: &[(&str, &str)]) -> Tags {
    entries.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect::<BTreeMap<_, _>>()
}

#[tokio::test(start_paused = true)]
async fn new_volume_gets_its_iops_when_the_dry_run_fails_or_hangs() {
    for class in NO_ANSWER {
        let fixture = Fixture::new().await;
        fixture.sim.fail_next(Action::CreateVolume, class, false);
        let volume = fixture.create(&gp3("pvc-1", 500, 60_000)).await.unwrap();
        assert_eq!(volume.iops, Some(60_000), "{class:?}");
        assert_eq!(fixture.probes().len(), 1, "{class:?}");
    }
    let fixture = Fixture::new().await;
    let _hangs = fixture.sim.hold(Action::CreateVolume);
    let volume = fixture.create(&gp3("pvc-1", 500, 60_000)).await.unwrap();
    assert_eq!(volume.iops, Some(60_000));
}

#[tokio::test(start_paused = true)]
async fn clone_gets_its_iops_when_the_dry_run_fails() {
    let fixture = Fixture::new().await;
    let origin = fixture.create(&gp3("origin", 500, 3000)).await.unwrap();
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
    let source = ebs_cloud::Source::Volume(origin.id);
    let clone = fixture.create(&VolumeSpec { source, ..gp3("pvc-1", 500, 60_000) }).await.unwrap();
    assert_eq!(clone.iops, Some(60_000));
}

#[tokio::test(start_paused = true)]
async fn existing_volume_keeps_its_iops_when_the_dry_run_fails() {
    for class in NO_ANSWER {
        let mut fixture = Fixture::new().await;
        let volume = fixture.create(&gp3("pvc-1", 500, 60_000)).await.unwrap();
        fixture.restart();
        fixture.pass(60).await;
        fixture.sim.fail_next(Action::CreateVolume, class, false);
        let spec = ModifySpec {
            volume_type: Some(VolumeType::Gp3),
            iops: IopsRequest::explicit(60_000),
            tags: tags(&[("team", "storage")]),
            ..ModifySpec::default()
        };
        let now = fixture.modify(&volume.id, &spec).await.unwrap();
        assert_eq!((now.iops, modified(&fixture)), (Some(60_000), vec![]), "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn iops_maximum_in_a_refusal_is_used_at_once() {
    let fixture = Fixture::new().await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
    let volume = fixture.create(&gp3("pvc-1", 1000, 90_000)).await.unwrap();
    assert_eq!((volume.iops, asked(&fixture)), (Some(80_000), vec![Some(90_000), Some(80_000)]));
    // The driver caches the maximum from a refusal, just like the result of a dry run.
    assert_eq!(fixture.create(&gp3("pvc-2", 1000, 90_000)).await.unwrap().iops, Some(80_000));
    assert_eq!((fixture.probes().len(), asked(&fixture).len()), (1, 3));
}

fn refuse_more_than(fixture: &Fixture, maximum: u32, asked: u32, times: u64) {
    let message = format!("Volume iops of {asked} is too high; maximum is {maximum}.");
    let code = "InvalidParameterValue".to_owned();
    let refusal = Effect::Error { code, message, status: 400, after_doing: false };
    fixture.sim.faults().add(Rule::new(refusal).on("CreateVolume").times(times)).expect("a rule");
}

/// The driver does not know the limits of the type, so it cannot lower the IOPS. It must not retry forever.
#[tokio::test(start_paused = true)]
async fn iops_refusal_for_an_unknown_volume_type_is_not_retried() {
    let fixture = Fixture::new().await;
    refuse_more_than(&fixture, 100_000, 900_000, 50);
    let wanted = VolumeSpec { volume_type: VolumeType::Other("gp9".to_owned()), ..gp3("pvc-1", 500, 900_000) };
    assert_error(fixture.create(&wanted).await, CloudErrorKind::InvalidArgument);
    assert_eq!(asked(&fixture), [Some(900_000)]);
}

/// A zone may have a lower maximum than most zones.
#[tokio::test(start_paused = true)]
async fn zone_iops_maximum_below_the_usual_one_is_used() {
    let fixture = Fixture::new().await;
    refuse_more_than(&fixture, 8000, 12_000, 1);
    let volume = fixture.create(&gp3("pvc-1", 500, 12_000)).await.unwrap();
    assert_eq!((volume.iops, asked(&fixture)), (Some(8000), vec![Some(12_000), Some(8000)]));
}

fn raised_with_its_size() -> VolumeSpec {
    let mut wanted = in_zone(spec("pvc-1"), "us-west-2a");
    let permission = ("ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify", "true");
    wanted.tags.extend(tags(&[("ebs.csi.aws.com/IOPSPerGb", "500"), permission]));
    wanted
}

#[tokio::test(start_paused = true)]
async fn expansion_uses_the_iops_maximum_in_a_refusal() {
    let mut fixture = Fixture::new().await;
    let volume = fixture.create(&raised_with_its_size()).await.unwrap();
    fixture.restart();
    fixture.pass(60).await;
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
    assert_eq!(fixture.expand(&volume.id, Gib(400)).await.unwrap(), Gib(400));
    assert_eq!(modified(&fixture), [Some(200_000), Some(80_000)]);
    assert_eq!(fixture.cloud.volumes.get(&volume.id).await.unwrap().iops, Some(80_000));
}

/// Only the volume's tags request more IOPS, so EC2's refusal of the IOPS must not prevent the expansion.
#[tokio::test(start_paused = true)]
async fn expansion_continues_without_iops_that_ec2_refused() {
    for class in [ErrorClass::InvalidParameter, ErrorClass::LimitExceeded(Limit::Iops)] {
        let fixture = Fixture::new().await;
        let volume = fixture.create(&raised_with_its_size()).await.unwrap();
        fixture.sim.fail_next(Action::ModifyVolume, class, false);
        assert_eq!(fixture.expand(&volume.id, Gib(20)).await.unwrap(), Gib(20));
        assert_eq!(modified(&fixture), [Some(10_000), None], "{class:?}");
        fixture.pass(60).await;
        // If the request itself has the IOPS, the refusal is an error.
        fixture.sim.fail_next(Action::ModifyVolume, class, false);
        let spec = ModifySpec { iops: IopsRequest::explicit(9000), ..ModifySpec::size(Gib(30)) };
        fixture.modify(&volume.id, &spec).await.unwrap_err();
        assert_eq!(modified(&fixture).len(), 3, "{class:?}");
    }
}

/// A burst of creations empties CreateVolume's bucket. A dry run that waited there for a token would delay its own
/// creation and take another creation's token.
#[tokio::test(start_paused = true)]
async fn dry_run_does_not_wait_for_a_create_volume_token() {
    let fixture = Fixture::new().await;
    let mut running = JoinSet::new();
    for n in 0..150 {
        let (cloud, waiters) = (Arc::clone(&fixture.cloud), fixture.waiters.clone());
        let spec = in_zone(spec(&format!("pvc-{n}")), "us-west-2a");
        running.spawn(async move { cloud.volumes.create(&spec, &waiters).await.map(drop) });
    }
    fixture.called(Action::CreateVolume, 100).await;
    let began = Instant::now();
    let volume = fixture.create(&gp3("fast", 500, 60_000)).await.unwrap();
    assert_eq!((volume.iops, fixture.probes().len()), (Some(60_000), 0));
    assert!(began.elapsed().as_secs() < 30, "{:?}", began.elapsed());
    for made in running.join_all().await {
        made.expect("a plain volume can be created");
    }
}

#[tokio::test(start_paused = true)]
async fn iops_that_every_zone_supports_are_not_probed() {
    let fixture = Fixture::new().await;
    for (name, volume_type, iops, probes) in [
        ("pvc-1", VolumeType::Gp3, 16_000, 0),
        ("pvc-2", VolumeType::Io2, 64_000, 0),
        ("pvc-3", VolumeType::Io2, 64_001, 1),
        ("pvc-4", VolumeType::Gp3, 16_001, 2),
    ] {
        let wanted = VolumeSpec { volume_type, ..gp3(name, 200, iops) };
        assert_eq!(fixture.create(&wanted).await.unwrap().iops, Some(iops));
        assert_eq!(fixture.probes().len(), probes, "{name}");
    }
}
