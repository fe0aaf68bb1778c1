//! How long answers of EC2 are cached, and what an empty describe means.

use ebs_cloud::{CapacityRequest, CloudErrorKind, Object, VolumeSpec};
use ebs_ec2::{Action, ErrorClass, Gib, IopsRequest};
use ebs_sim::api::Call;
use ebs_sim::engine::{EngineConfig, TimingOverride};
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, in_zone, spec};

/// Requests more IOPS than every zone supports, but fewer than EC2 refuses.
fn greedy(name: &str, zone: &str) -> VolumeSpec {
    let capacity = CapacityRequest { required: Some(Gib(200)), fallback: Gib(200), limit: None };
    VolumeSpec { iops: IopsRequest::explicit(70_000), capacity, ..in_zone(spec(name), zone) }
}

/// A failed probe is not repeated for 5 min. Reading does not extend the time.
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

/// It has type, zone, 4 GiB, far too many IOPS and the ownership tags, but no key, snapshot or throughput.
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

/// The number of the built-in table is used for two minutes.
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

#[tokio::test(start_paused = true)]
async fn card_index_is_omitted_for_an_instance_with_one_card() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    let cards: Vec<_> = fixture
        .sim
        .calls()
        .into_iter()
        .filter_map(|c| if let Call::AttachVolume(r) = c.request { Some(r.ebs_card_index) } else { None })
        .collect();
    assert_eq!(cards, [None]);
}

/// Throttles only delay it.
#[tokio::test(start_paused = true)]
async fn lost_describes_do_not_end_an_attach() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(5_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    let gate = fixture.sim.hold(Action::AttachVolume);
    let (ended, ()) = tokio::join!(fixture.attach(&volume.id, &node), async {
        gate.reached().await;
        for class in [ErrorClass::NotSent, ErrorClass::Throttled, ErrorClass::Ambiguous] {
            fixture.sim.fail_next(Action::DescribeVolumes, class, false);
        }
        gate.release();
    });
    ended.unwrap();
    assert_eq!(fixture.count(Action::AttachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn attach_of_a_vanished_volume_ends_after_15_s() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(60_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.pass(20).await;
    fixture.ec2.override_volumes(Vec::clear);
    let began = Instant::now();
    assert_error(fixture.attach(&volume.id, &node).await, CloudErrorKind::NotFound(Object::Volume(volume.id)));
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
    let fixture = Fixture::new().await;
    let modify_ms = Some(600_000);
    fixture.timing(TimingOverride { modify_ms, ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    assert_error(fixture.expand(&volume.id, Gib(10)).await, CloudErrorKind::InProgress);
    fixture.pass(200).await;
    assert_eq!(fixture.expand(&volume.id, Gib(10)).await.unwrap(), Gib(10));
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn modification_that_ec2_does_not_list_is_unknown() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.override_modifications(Vec::clear);
    assert_error(fixture.expand(&volume, Gib(10)).await, CloudErrorKind::OutcomeUnknown);
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}
