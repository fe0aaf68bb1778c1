//! Two controllers that modify one volume, just after the resizer's lease has moved.

use std::num::NonZeroU32;
use std::time::Duration;

use ebs_cloud::{CloudErrorKind, ModifySpec, Sidecar};
use ebs_ec2::{Action, ConnectionId, Gib, IopsRequest, ModifyVolume, PageRequest, Tags, Volume, VolumeId, Volumes};
use ebs_sim::engine::TimingOverride;
use tokio::time::Instant;

use crate::fixture::Fixture;

fn iops(iops: u32) -> ModifySpec {
    ModifySpec { iops: IopsRequest::explicit(iops), ..ModifySpec::default() }
}

fn tag(value: &str) -> ModifySpec {
    ModifySpec { tags: Tags::from([("tier".to_owned(), value.to_owned())]), ..ModifySpec::default() }
}

async fn volume(fixture: &Fixture) -> Volume {
    let volume = fixture.volume("pvc-1").await;
    fixture.timing(TimingOverride { modify_ms: Some(0), optimize_ms: Some(0), ..TimingOverride::default() }).await;
    Box::pin(fixture.expand(&volume.id, Gib(10))).await.expect("it can grow");
    fixture.pass(60).await;
    fixture.cloud.volumes.get(&volume.id).await.expect("it exists")
}

/// Makes DescribeVolumes calls show the volume in its current state for 14 s, without later modifications.
async fn freeze(fixture: &Fixture, id: &VolumeId) {
    let (began, then) = (Instant::now(), fixture.cloud.volumes.get(id).await.expect("it exists"));
    let is_past = move || began.elapsed() < Duration::from_secs(14);
    fixture.ec2.override_volumes(move |volumes| {
        for volume in volumes.iter_mut().filter(|v| v.id == then.id && is_past()) {
            (volume.iops, volume.throughput, volume.size) = (then.iops, then.throughput, then.size);
        }
    });
    fixture.ec2.override_modifications(move |modifications| {
        if is_past() {
            modifications.clear();
        }
    });
}

async fn modify(fixture: &Fixture, id: &VolumeId, spec: &ModifySpec) -> Volume {
    fixture.modify(id, spec).await.expect("it can be modified")
}

/// Modifies the volume directly in the simulator, as a previous leader would.
async fn old_leader_sets_iops(fixture: &Fixture, id: &VolumeId, iops: u32) {
    let request =
        ModifyVolume { volume: id.clone(), size: None, volume_type: None, iops: Some(iops), throughput: None };
    fixture.sim.modify_volume(&request).await.expect("it can be modified");
}

async fn truth(fixture: &Fixture, id: &VolumeId) -> ebs_sim::api::SimVolume {
    fixture.volumes().await.into_iter().find(|v| v.id == id.as_str()).expect("it exists")
}

/// The driver needs a proof even to omit a property that seems to be set already.
#[tokio::test(start_paused = true)]
async fn new_leader_overrides_a_recent_change_of_the_previous_one() {
    for throughput in [None, NonZeroU32::new(250)] {
        let fixture = Fixture::new().await;
        let volume = volume(&fixture).await;
        freeze(&fixture, &volume.id).await;
        old_leader_sets_iops(&fixture, &volume.id, 4000).await;
        let answered = modify(&fixture, &volume.id, &ModifySpec { throughput, ..iops(3000) }).await;
        let real = truth(&fixture, &volume.id).await;
        assert_eq!((answered.iops, real.iops), (Some(3000), Some(3000)));
        assert!(throughput.is_none() || real.throughput == Some(250), "{real:?}");
    }
}

/// The lease of the volume modifier moves to a process that has long served the resizer.
#[tokio::test(start_paused = true)]
async fn new_volume_modifier_leader_overrides_a_recent_change() {
    let fixture = Fixture::new().await;
    let volume = volume(&fixture).await;
    fixture.cloud.record_request(Sidecar::Resizer, Some(ConnectionId::unique()));
    fixture.pass(60).await;
    freeze(&fixture, &volume.id).await;
    old_leader_sets_iops(&fixture, &volume.id, 4000).await;
    fixture.cloud.record_request(Sidecar::Resizer, None);
    fixture.cloud.record_request(Sidecar::VolumeModifier, Some(ConnectionId::unique()));
    let (by, spec) = ([Sidecar::VolumeModifier], iops(3000));
    let modify = fixture.cloud.volumes.modify(&by, &volume.id, &spec, &fixture.waiters);
    let answered = Box::pin(modify).await.expect("it can be modified");
    assert_eq!((answered.iops, truth(&fixture, &volume.id).await.iops), (Some(3000), Some(3000)));
}

/// After the lease has moved, EC2 may still carry out the previous leader's calls for a while.
#[tokio::test(start_paused = true)]
async fn late_change_of_the_previous_leader_is_overridden() {
    for (action, old_spec, new_spec) in
        [(Action::ModifyVolume, iops(4000), iops(3500)), (Action::CreateTags, tag("old"), tag("new"))]
    {
        let fixture = Fixture::new().await;
        let volume = volume(&fixture).await;
        let old = fixture.old_leader().await;
        let late = fixture.sim.hold(action);
        let called = async {
            late.reached().await;
            tokio::time::sleep(Duration::from_secs(14)).await;
            late.release();
        };
        let by_old = old.volumes.modify(&[Sidecar::Resizer], &volume.id, &old_spec, &fixture.waiters);
        let (_, (), answered) = tokio::join!(by_old, called, async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            modify(&fixture, &volume.id, &new_spec).await
        });
        let real = truth(&fixture, &volume.id).await;
        match action {
            Action::ModifyVolume => assert_eq!((answered.iops, real.iops), (Some(3500), Some(3500))),
            _ => assert_eq!(real.tags["tier"], "new"),
        }
    }
}

/// A resizer that keeps its connection calls no other process.
#[tokio::test(start_paused = true)]
async fn established_leader_modifies_a_volume_at_once() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    let volume = volume(&fixture).await;
    for spec in [iops(4000), ModifySpec::size(Gib(20)), tag("gold"), iops(4000)] {
        fixture.pass(60).await;
        let began = Instant::now();
        modify(&fixture, &volume.id, &spec).await;
        assert!(began.elapsed() < Duration::from_secs(5), "{spec:?}: {:?}", began.elapsed());
    }
}

/// A stale describe may still show an earlier modification with the same targets.
#[tokio::test(start_paused = true)]
async fn earlier_modification_is_not_mistaken_for_the_requested_one() {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    let volume = volume(&fixture).await;
    modify(&fixture, &volume.id, &iops(4000)).await;
    let earlier = fixture.sim.describe_modifications(std::slice::from_ref(&volume.id), &PageRequest::default()).await;
    let earlier = earlier.expect("described").items;
    fixture.pass(60).await;
    modify(&fixture, &volume.id, &iops(3000)).await;
    fixture.pass(60).await;
    fixture.timing(TimingOverride { modify_ms: Some(12_000), ..TimingOverride::default() }).await;
    let (began, sim, calls) = (Instant::now(), fixture.sim.clone(), fixture.count(Action::ModifyVolume));
    fixture.ec2.override_modifications(move |modifications| {
        if sim.count(Action::ModifyVolume) > calls && began.elapsed() < Duration::from_secs(8) {
            modifications.clone_from(&earlier);
        }
    });
    modify(&fixture, &volume.id, &iops(4000)).await;
    assert!(began.elapsed() >= Duration::from_secs(12), "{:?}", began.elapsed());
}

/// The new leader's request waits for the running modification and does not repeat it.
#[tokio::test(start_paused = true)]
async fn new_leader_waits_for_an_expansion_by_the_previous_one() {
    let fixture = Fixture::new().await;
    let volume = volume(&fixture).await;
    fixture.timing(TimingOverride { modify_ms: Some(20_000), ..TimingOverride::default() }).await;
    let old = fixture.old_leader().await;
    let before = fixture.accepted(Action::ModifyVolume);
    freeze(&fixture, &volume.id).await;
    let began = Instant::now();
    let size = ModifySpec::size(Gib(20));
    let (_, new) = tokio::join!(old.volumes.modify(&[Sidecar::Resizer], &volume.id, &size, &fixture.waiters), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        fixture.expand(&volume.id, Gib(20)).await
    });
    assert_eq!(new.map_err(|error| error.kind), Ok::<_, CloudErrorKind>(Gib(20)));
    assert!(began.elapsed() >= Duration::from_secs(20), "{:?}", began.elapsed());
    assert_eq!(fixture.accepted(Action::ModifyVolume), before + 1);
}

/// EC2 shows the target size at once, but may show the modification later.
#[tokio::test(start_paused = true)]
async fn new_process_does_not_report_an_unfinished_expansion_as_done() {
    let mut fixture = Fixture::new().await;
    let volume = volume(&fixture).await;
    fixture.timing(TimingOverride { modify_ms: Some(20_000), ..TimingOverride::default() }).await;
    let request = ModifyVolume {
        volume: volume.id.clone(),
        size: Some(Gib(20)),
        volume_type: None,
        iops: None,
        throughput: None,
    };
    fixture.sim.modify_volume(&request).await.expect("it can be modified");
    let began = Instant::now();
    fixture.ec2.hide_modifications(14);
    fixture.restart();
    assert_eq!(fixture.expand(&volume.id, Gib(20)).await.unwrap(), Gib(20));
    assert!(began.elapsed() >= Duration::from_secs(20), "{:?}", began.elapsed());
}

/// A new leader need not wait for the previous one, because EC2 never shrinks a volume.
#[tokio::test(start_paused = true)]
async fn new_leader_requests_an_expansion_at_once() {
    let fixture = Fixture::new().await;
    let volume = volume(&fixture).await;
    let began = Instant::now();
    fixture.expand(&volume.id, Gib(20)).await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "{:?}", began.elapsed());
}
