//! How long an answer of EC2 is believed, and what a describe that shows nothing means.

use ebs_cloud::{CapacityRequest, CloudError, CloudErrorKind, Object, VolumeSpec};
use ebs_ec2::{Action, ErrorClass};
use ebs_sim::api::Call;
use ebs_sim::engine::{EngineConfig, TimingOverride};
use ebs_types::{Gib, IopsRequest};

use crate::fixture::{Fixture, in_zone, spec};

/// Asks for more IOPS than every place gives, and for none that EC2 refuses.
fn greedy(name: &str, zone: &str) -> VolumeSpec {
    let capacity = CapacityRequest { required: Some(Gib(200)), fallback: Gib(200), limit: None };
    VolumeSpec { iops: IopsRequest::explicit(70_000), capacity, ..in_zone(spec(name), zone) }
}

/// An IOPS limit is believed for 12 h for its type and zone, however often it is read; after a question without answer
/// none is asked for 5 min.
#[tokio::test(start_paused = true)]
async fn an_iops_limit_is_believed_for_twelve_hours_in_its_zone_and_a_missing_answer_for_five_minutes() {
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
    assert_eq!(asked("pvc-3", "us-west-2a").await, 2, "and then asked for again");
    fixture.pass(11 * 3600).await;
    assert_eq!(asked("pvc-4", "us-west-2a").await, 2);
    assert_eq!(asked("pvc-5", "us-west-2b").await, 3, "another zone may have another limit");
    fixture.pass(3601).await;
    assert_eq!(asked("pvc-6", "us-west-2a").await, 4, "reading does not prolong it");
}

/// The question for an IOPS limit is a dry run with type, place, 4 GiB and far too many IOPS, and names no key,
/// snapshot or throughput.
#[tokio::test(start_paused = true)]
async fn the_question_for_an_iops_limit_is_a_dry_run_of_a_small_volume_and_names_nothing_else() {
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
}

/// A number of EBS cards is believed for an hour, that of the table for two minutes.
#[tokio::test(start_paused = true)]
async fn a_number_of_cards_is_believed_for_an_hour_and_that_of_the_table_for_two_minutes() {
    let config = EngineConfig { instance_type: "r8gb.48xlarge".to_owned(), ..EngineConfig::default() };
    let fixture = Fixture::with(config).await;
    let [node, _] = fixture.nodes().await;
    let asked = async |name: &str| {
        let volume = fixture.volume(name).await;
        fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
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

/// An instance with one EBS card is sent no card index.
#[tokio::test(start_paused = true)]
async fn an_instance_with_one_card_is_sent_no_card() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    let cards: Vec<_> = fixture
        .sim
        .calls()
        .into_iter()
        .filter_map(|c| if let Call::AttachVolume(r) = c.request { Some(r.ebs_card_index) } else { None })
        .collect();
    assert_eq!(cards, [None]);
}

/// Looks that fail after AttachVolume do not end the wait; throttles only delay it.
#[tokio::test(start_paused = true)]
async fn lost_describes_do_not_end_an_attach() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(5_000), ..TimingOverride::default() }).await;
    let [node, _] = fixture.nodes().await;
    let volume = fixture.volume("pvc-1").await;
    let gate = fixture.sim.hold(Action::AttachVolume);
    let (ended, ()) = tokio::join!(fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters), async {
        gate.reached().await;
        for class in [ErrorClass::NotSent, ErrorClass::Throttled, ErrorClass::Ambiguous] {
            fixture.sim.fail_next(Action::DescribeVolumes, class, false);
        }
        gate.release();
    });
    ended.unwrap();
    assert_eq!(fixture.count(Action::AttachVolume), 1);
}

/// A volume that looks no longer show ends its attach as missing, once they can be trusted.
#[tokio::test(start_paused = true)]
async fn a_volume_that_is_no_longer_there_ends_its_attach_when_describes_can_be_trusted() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { attach_ms: Some(60_000), ..TimingOverride::default() }).await;
    let [node, _] = fixture.nodes().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.pass(20).await;
    fixture.ec2.override_volumes(Vec::clear);
    let began = tokio::time::Instant::now();
    match fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap_err() {
        CloudError { kind: CloudErrorKind::NotFound(object), .. } => assert_eq!(object, Object::Volume(volume.id)),
        other => panic!("{other:?}"),
    }
    assert!((15..30).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
}

/// A volume that is in use already is made as well as an available one.
#[tokio::test(start_paused = true)]
async fn a_creation_is_repeated_as_well_when_its_volume_is_in_use_already() {
    let fixture = Fixture::new().await;
    let [node, _] = fixture.nodes().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.volume("pvc-1").await.id, volume.id);
    assert_eq!(fixture.volumes().await.len(), 1);
}

/// A modification that takes too long ends non-final and the next attempt follows it without a second call.
#[tokio::test(start_paused = true)]
async fn a_modification_that_takes_too_long_ends_non_final_and_is_followed_by_the_next_attempt() {
    let fixture = Fixture::new().await;
    let modify_ms = Some(600_000);
    fixture.timing(TimingOverride { modify_ms, ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::InProgress), "{error:?}");
    fixture.pass(200).await;
    assert_eq!(fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap(), Gib(10));
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}

/// A modification that EC2 does not list after it was accepted is not taken for done, and crashes nothing.
#[tokio::test(start_paused = true)]
async fn a_modification_that_ec2_does_not_list_is_neither_done_nor_the_end_of_the_process() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.ec2.override_modifications(Vec::clear);
    let error = fixture.cloud.volumes.expand(&volume.id, Gib(10), &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::OutcomeUnknown), "{error:?}");
    assert_eq!(fixture.count(Action::ModifyVolume), 1);
}
