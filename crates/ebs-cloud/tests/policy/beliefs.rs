//! Tests how long the driver caches EC2's answers, which operations share a request, and what an empty describe means.

use std::sync::Arc;
use std::time::Duration;

use ebs_cloud::{CapacityRequest, CloudErrorKind, Object, VolumeSpec};
use ebs_ec2::{Action, ErrorClass, Gib, IopsRequest};
use ebs_sim::engine::{EngineConfig, TimingOverride};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, in_zone, spec};

/// Returns a request for more IOPS than every zone supports, but not so many that EC2 refuses them.
fn greedy(name: &str, zone: &str) -> VolumeSpec {
    let capacity = CapacityRequest { required: Some(Gib(200)), fallback: Gib(200), limit: None };
    VolumeSpec { iops: IopsRequest::explicit(70_000), capacity, ..in_zone(spec(name), zone) }
}

/// The driver does not repeat a failed probe for 5 min. Reading a cached limit does not extend its lifetime.
#[tokio::test(start_paused = true)]
async fn iops_limit_is_cached_for_12_hours_by_zone() {
    let fixture = Fixture::new().await;
    let asked = async |name: &str, zone: &str| {
        fixture.create(&greedy(name, zone)).await.unwrap();
        fixture.probes().len()
    };
    fixture.sim.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
    assert_eq!(asked("pvc-1", "us-west-2a").await, 1);
    fixture.pass(240).await;
    assert_eq!(asked("pvc-2", "us-west-2a").await, 1, "no answer is kept for a short while too");
    fixture.pass(61).await;
    assert_eq!(asked("pvc-3", "us-west-2a").await, 2, "and then requested again");
    fixture.pass(11 * 3600).await;
    assert_eq!(asked("pvc-4", "us-west-2a").await, 2);
    assert_eq!(asked("pvc-5", "us-west-2b").await, 3, "another zone may have another limit");
    fixture.pass(3601).await;
    assert_eq!(asked("pvc-6", "us-west-2a").await, 4, "reading does not prolong it");
}

#[tokio::test(start_paused = true)]
async fn iops_probe_is_a_dry_run_of_a_small_volume() {
    let fixture = Fixture::new().await;
    fixture
        .create(&VolumeSpec { throughput: std::num::NonZero::new(200), ..greedy("pvc-1", "us-west-2a") })
        .await
        .unwrap();
    let probe = fixture.probes().remove(0);
    assert!(probe.dry_run);
    assert_eq!((probe.size, probe.iops), (Some(4), Some(2_147_483_647)));
    assert_eq!(probe.volume_type.as_deref(), Some("gp3"));
    assert_eq!((probe.availability_zone.as_deref(), probe.availability_zone_id), (Some("us-west-2a"), None));
    assert_eq!((probe.kms_key_id, probe.snapshot_id, probe.outpost_arn), (None, None, None));
    assert_eq!((probe.throughput, probe.volume_initialization_rate), (None, None));
    let tags: Vec<_> = probe.tag_specifications.iter().flat_map(|s| &s.tags).map(|t| (&*t.key, &*t.value)).collect();
    for (key, value) in [
        ("CSIVolumeName", "IopsLimitDryRun"),
        ("ebs.csi.aws.com/cluster", "true"),
        ("kubernetes.io/cluster/blue", "owned"),
    ] {
        assert!(tags.contains(&(key, value)), "{tags:?}");
    }
}

/// If EC2 does not report the number of cards, the built-in table's number is used for two minutes.
#[tokio::test(start_paused = true)]
async fn card_count_is_cached_for_an_hour() {
    let config = EngineConfig { instance_type: "r8gb.48xlarge".to_owned(), ..EngineConfig::default() };
    let fixture = Fixture::with(config).await;
    let [node, _] = fixture.nodes().await;
    let asked = async |name: &str| {
        let volume = fixture.volume(name).await;
        fixture.attach(&volume.id, &node).await.unwrap();
        fixture.count(Action::DescribeInstanceTypes)
    };
    fixture.sim.fail_next(Action::DescribeInstanceTypes, ErrorClass::Unauthorized, false);
    assert_eq!(asked("pvc-1").await, 1);
    fixture.pass(60).await;
    assert_eq!(asked("pvc-2").await, 1);
    fixture.pass(61).await;
    assert_eq!(asked("pvc-3").await, 2);
    fixture.pass(3000).await;
    assert_eq!(asked("pvc-4").await, 2);
    fixture.pass(601).await;
    assert_eq!(asked("pvc-5").await, 3);
}

/// Throttled describes only delay the attach or detach.
#[tokio::test(start_paused = true)]
async fn failed_describes_do_not_fail_an_attach_or_detach() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    let times = TimingOverride { attach_ms: Some(5_000), detach_ms: Some(5_000), ..TimingOverride::default() };
    fixture.timing(times).await;
    for (action, attached) in [(Action::AttachVolume, 1), (Action::DetachVolume, 0)] {
        let gate = fixture.sim.hold(action);
        let change = async {
            match action {
                Action::AttachVolume => fixture.attach(&volume, &node).await.map(drop),
                _ => fixture.detach(&volume, &node).await,
            }
        };
        let (ended, ()) = tokio::join!(change, async {
            gate.reached().await;
            for class in [ErrorClass::NotSent, ErrorClass::Throttled, ErrorClass::Ambiguous] {
                fixture.sim.fail_next(Action::DescribeVolumes, class, false);
            }
            gate.release();
        });
        ended.unwrap();
        assert_eq!(fixture.volumes().await[0].attachments.len(), attached);
    }
    assert_eq!(fixture.count(Action::AttachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn attach_of_a_vanished_volume_fails_after_15_s() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.timing(TimingOverride { attach_ms: Some(60_000), ..TimingOverride::default() }).await;
    fixture.pass(20).await;
    fixture.ec2.override_volumes(Vec::clear);
    let began = Instant::now();
    assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::NotFound(Object::Volume(volume)));
    assert!((15..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn repeated_creation_of_a_volume_in_use_succeeds() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    assert_eq!(fixture.volume("pvc-1").await.id, volume);
    assert_eq!(fixture.volumes().await.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn next_attempt_continues_a_slow_modification() {
    let (fixture, volume) = Fixture::with_volume().await;
    let modify_ms = Some(600_000);
    fixture.timing(TimingOverride { modify_ms, ..TimingOverride::default() }).await;
    assert_error(fixture.expand(&volume, Gib(10)).await, CloudErrorKind::InProgress);
    fixture.pass(200).await;
    assert_eq!(fixture.expand(&volume, Gib(10)).await.unwrap(), Gib(10));
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn modification_that_ec2_never_lists_has_unknown_outcome() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.override_modifications(Vec::clear);
    assert_error(fixture.expand(&volume, Gib(10)).await, CloudErrorKind::OutcomeUnknown);
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}

async fn create_all(fixture: &Fixture, specs: impl Iterator<Item = VolumeSpec>) {
    let mut running = JoinSet::new();
    for spec in specs {
        let (cloud, waiters) = (Arc::clone(&fixture.cloud), fixture.waiters.clone());
        running.spawn(async move { cloud.volumes.create(&spec, &waiters).await.map(drop) });
    }
    for made in running.join_all().await {
        made.expect("a plain volume can be created");
    }
}

#[tokio::test(start_paused = true)]
async fn zones_and_cards_are_described_once_for_all_operations() {
    let fixture = Fixture::new().await;
    create_all(&fixture, (0..100).map(|n| spec(&format!("pvc-{n}")))).await;
    assert_eq!((fixture.volumes().await.len(), fixture.count(Action::DescribeAvailabilityZones)), (100, 1));
    let [node, _] = fixture.nodes().await;
    create_all(&fixture, (0..10).map(|n| in_zone(spec(&format!("here-{n}")), "us-west-2a"))).await;
    let mut running = JoinSet::new();
    for volume in fixture.volumes().await.iter().filter(|v| v.tags["CSIVolumeName"].starts_with("here-")) {
        let id = ebs_ec2::VolumeId::parse(&volume.id).expect("an id");
        let (cloud, waiters, node) = (Arc::clone(&fixture.cloud), fixture.waiters.clone(), node.clone());
        running.spawn(async move { cloud.attachments.attach(&id, &node, &waiters).await.map(drop) });
    }
    assert_eq!(running.len(), 10);
    for attached in running.join_all().await {
        attached.expect("there is room for ten");
    }
    assert_eq!(fixture.count(Action::DescribeInstanceTypes), 1);
}

#[tokio::test(start_paused = true)]
async fn hanging_iops_probe_does_not_delay_other_zones() {
    let fixture = Fixture::new().await;
    let gate = fixture.sim.hold(Action::CreateVolume);
    let began = Instant::now();
    let (slow, quick) = (greedy("slow", "us-west-2a"), greedy("quick", "us-west-2b"));
    let (slow, quick) = tokio::join!(async { (fixture.create(&slow).await.is_ok(), began.elapsed()) }, async {
        gate.reached().await;
        (fixture.create(&quick).await.is_ok(), began.elapsed())
    },);
    assert!(quick.0 && quick.1 < Duration::from_secs(2), "{quick:?}");
    assert!(slow.1 < Duration::from_secs(8), "{slow:?}");
    assert_eq!(
        fixture.probes().iter().filter(|probe| probe.availability_zone.as_deref() == Some("us-west-2b")).count(),
        1
    );
}
