//! Tests of the port with hooks.

use std::time::Duration;

use ebs_ec2::{
    AttachRequest, AttachmentState, Attachments as _, ClusterNodes as _, CopyVolume, CreateSnapshot, CreateVolume,
    DetachRequest, Instances as _, LockSnapshot, ModificationState, ModifyVolume, PageRequest, Place, SnapshotQuery,
    SnapshotState, Snapshots as _, Volume, VolumeQuery, VolumeState, Volumes as _, Zones as _,
};
use ebs_types::{DeviceName, Gib, HyperPodNode, Tags, VolumeId, VolumeType, ZoneName};

use super::*;

/// A simulator for a test, whose calls need no permissions.
async fn sim() -> SimEc2 {
    SimEc2::start(EngineConfig::default()).await.unwrap().by_test()
}

fn request(token: &str) -> CreateVolume {
    let place = Place::Zone(ZoneName::parse("us-west-2a").unwrap());
    let tags = Tags::from([("CSIVolumeName".to_owned(), token.to_owned())]);
    CreateVolume { tags, ..CreateVolume::plain(token, place, Gib(4), VolumeType::Gp3) }
}

async fn only(sim: &SimEc2, id: &VolumeId) -> Volume {
    let query = VolumeQuery::FilterIds(vec![id.clone()]);
    let mut page = sim.describe_volumes(&query, &PageRequest::default()).await.unwrap();
    assert_eq!(page.items.len(), 1);
    page.items.remove(0)
}

#[tokio::test(start_paused = true)]
async fn volume_completes_its_life_through_port() {
    let sim = sim().await;
    let [instance, _] = sim.instance_ids().await;
    let created = sim.create_volume(&request("pvc-1")).await.unwrap();
    assert_eq!((created.state.clone(), created.csi_name()), (VolumeState::Creating, Some("pvc-1")));
    let device = DeviceName::new("/dev/xvdaa");
    let attach = AttachRequest { volume: created.id.clone(), instance: instance.clone(), device, card: None };
    assert_eq!(sim.attach_volume(&attach).await.unwrap().state, AttachmentState::Attaching);
    let volume = only(&sim, &created.id).await;
    assert_eq!((volume.state, volume.attachments[0].state.clone()), (VolumeState::InUse, AttachmentState::Attached));
    let listed = sim.describe_instances(std::slice::from_ref(&instance), &PageRequest::default()).await.unwrap();
    assert!(listed.items[0].devices.iter().any(|d| d.volume.as_ref() == Some(&created.id)));

    let modify = ModifyVolume {
        volume: created.id.clone(),
        size: Some(Gib(9)),
        volume_type: None,
        iops: None,
        throughput: None,
    };
    assert_eq!(sim.modify_volume(&modify).await.unwrap().state, ModificationState::Modifying);
    let done = sim.describe_modifications(std::slice::from_ref(&created.id), &PageRequest::default()).await.unwrap();
    assert_eq!((done.items[0].state.clone(), done.items[0].target_size), (ModificationState::Completed, Some(Gib(9))));

    let snapshot = CreateSnapshot {
        volume: created.id.clone(),
        description: "of pvc-1".into(),
        outpost_arn: None,
        tags: Tags::from([("CSIVolumeSnapshotName".to_owned(), "snap".to_owned())]),
    };
    let snapshot = sim.create_snapshot(&snapshot).await.unwrap();
    let query = SnapshotQuery::Tag { key: "CSIVolumeSnapshotName".into(), values: vec!["snap".into()] };
    let found = sim.describe_snapshots(&query, &PageRequest::default()).await.unwrap().items;
    assert_eq!((found[0].id.clone(), found[0].state.clone()), (snapshot.id.clone(), SnapshotState::Completed));

    let copy = CopyVolume {
        client_token: "copy".into(),
        source: created.id.clone(),
        size: Gib(9),
        volume_type: VolumeType::Gp3,
        iops: None,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        multi_attach: false,
        tags: Tags::new(),
    };
    assert_eq!(sim.copy_volume(&copy).await.unwrap().source_volume, Some(created.id.clone()));

    let detach = DetachRequest { volume: created.id.clone(), instance };
    assert_eq!(sim.detach_volume(&detach).await.unwrap().state, AttachmentState::Detaching);
    sim.delete_volume(&created.id).await.unwrap();
    sim.delete_snapshot(&snapshot.id).await.unwrap();
    let gone = sim.delete_volume(&created.id).await.unwrap_err();
    assert_eq!((gone.class, gone.code.as_deref()), (ErrorClass::VolumeNotFound, Some("InvalidVolume.NotFound")));
}

#[tokio::test(start_paused = true)]
async fn tags_and_zones_work_through_port() {
    let sim = sim().await;
    let volume = sim.create_volume(&request("pvc-1")).await.unwrap().id;
    sim.create_tags(volume.as_str(), &Tags::from([("a".to_owned(), "1".to_owned())])).await.unwrap();
    assert_eq!(only(&sim, &volume).await.tags["a"], "1");
    sim.delete_tags(volume.as_str(), &["a".to_owned()]).await.unwrap();
    assert!(!only(&sim, &volume).await.tags.contains_key("a"));
    let zones = sim.describe_zones().await.unwrap();
    assert_eq!(zones.iter().filter(|z| z.is_availability_zone && z.available).count(), 3);
    sim.check_access().await.unwrap();
    assert_eq!(sim.describe_instance_type("r8gb.48xlarge").await.unwrap().unwrap().ebs_cards, 2);
    assert_eq!(sim.describe_instance_type("nonsense").await.unwrap(), None);
}

#[tokio::test(start_paused = true)]
async fn call_with_lost_reply_is_executed_and_rejected_is_not() {
    let sim = sim().await;
    sim.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, true);
    sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
    let volumes = async || sim.engine().snapshot_of_state().await.volumes.len();
    let before = volumes().await;
    assert_eq!(sim.create_volume(&request("a")).await.unwrap_err().class, ErrorClass::Ambiguous);
    assert_eq!(volumes().await, before + 1);
    assert_eq!(sim.create_volume(&request("b")).await.unwrap_err().class, ErrorClass::Throttled);
    assert_eq!(volumes().await, before + 1);
    let adopted = sim.create_volume(&request("a")).await.unwrap();
    assert_eq!(volumes().await, before + 1);
    assert_eq!(adopted.csi_name(), Some("a"));
}

#[tokio::test(start_paused = true)]
async fn held_call_is_not_executed_before_its_gate_opens() {
    let sim = sim().await;
    let gate = sim.hold(Action::CreateVolume);
    let other = sim.clone();
    let mut tasks = tokio::task::JoinSet::new();
    tasks.spawn(async move { other.create_volume(&request("a")).await });
    gate.reached().await;
    assert_eq!(sim.count(Action::CreateVolume), 0);
    let before = sim.engine().snapshot_of_state().await.volumes.len();
    sim.create_volume(&request("b")).await.expect("only the next call is held");
    gate.release();
    tasks.join_next().await.unwrap().unwrap().unwrap();
    assert_eq!(sim.engine().snapshot_of_state().await.volumes.len(), before + 2);
    assert_eq!(sim.count(Action::CreateVolume), 2);
}

#[tokio::test(start_paused = true)]
async fn every_call_is_recorded_with_its_result() {
    let sim = sim().await;
    let volume = sim.create_volume(&request("a")).await.unwrap().id;
    let dry = CreateVolume { dry_run: true, ..request("b") };
    assert_eq!(sim.create_volume(&dry).await.unwrap_err().class, ErrorClass::DryRunSucceeded);
    tokio::time::sleep(Duration::from_secs(5)).await;
    sim.delete_volume(&volume).await.unwrap();
    let calls = sim.calls();
    let shown: Vec<_> = calls.iter().map(|c| (c.action, c.dry_run, c.error)).collect();
    assert_eq!(
        shown,
        [
            (Action::CreateVolume, false, None),
            (Action::CreateVolume, true, Some(ErrorClass::DryRunSucceeded)),
            (Action::DeleteVolume, false, None),
        ]
    );
    assert!(calls[2].at.duration_since(calls[0].at).unwrap() >= Duration::from_secs(5));
    sim.clear_calls();
    assert_eq!(sim.calls(), []);
}

#[tokio::test(start_paused = true)]
async fn ec2_codes_map_to_classes() {
    let sim = sim().await;
    let [instance, second] = sim.instance_ids().await;
    let volume = sim.create_volume(&request("a")).await.unwrap().id;
    let attach = |volume: &VolumeId, instance: &ebs_types::InstanceId, device: &str| AttachRequest {
        volume: volume.clone(),
        instance: instance.clone(),
        device: DeviceName::new(device),
        card: None,
    };
    let class = |result: Result<ebs_ec2::Attachment, Ec2Error>| result.unwrap_err().class;
    let nobody = ebs_types::InstanceId::parse("i-00000000").unwrap();
    let nothing = VolumeId::parse("vol-00000000").unwrap();
    let odd = VolumeId::parse("vol-zz").unwrap();
    assert_eq!(class(sim.attach_volume(&attach(&volume, &second, "/dev/xvdaa")).await), ErrorClass::ZoneMismatch);
    assert_eq!(class(sim.attach_volume(&attach(&volume, &nobody, "/dev/xvdaa")).await), ErrorClass::InstanceNotFound);
    assert_eq!(class(sim.attach_volume(&attach(&nothing, &instance, "/dev/xvdaa")).await), ErrorClass::VolumeNotFound);
    assert_eq!(class(sim.attach_volume(&attach(&odd, &instance, "/dev/xvdaa")).await), ErrorClass::MalformedId);
    assert_eq!(
        class(sim.attach_volume(&attach(&volume, &instance, "/dev/nonsense")).await),
        ErrorClass::InvalidParameter
    );
    sim.attach_volume(&attach(&volume, &instance, "/dev/xvdaa")).await.unwrap();
    assert_eq!(class(sim.attach_volume(&attach(&volume, &instance, "/dev/xvdab")).await), ErrorClass::VolumeInUse);
    let other = sim.create_volume(&request("b")).await.unwrap().id;
    assert_eq!(class(sim.attach_volume(&attach(&other, &instance, "/dev/xvdaa")).await), ErrorClass::DeviceNameInUse);
    let detach = DetachRequest { volume: other, instance };
    assert_eq!(class(sim.detach_volume(&detach).await), ErrorClass::IncorrectState);
    let mismatch = CreateVolume { size: Gib(5), ..request("a") };
    assert_eq!(sim.create_volume(&mismatch).await.unwrap_err().class, ErrorClass::IdempotentMismatch);
    let unknown = CreateVolume { volume_type: VolumeType::Other("gp9".into()), ..request("c") };
    assert_eq!(sim.create_volume(&unknown).await.unwrap_err().class, ErrorClass::Unsupported);
    let page = PageRequest { max_results: None, token: Some("nonsense".into()) };
    assert_eq!(
        sim.describe_volumes(&VolumeQuery::FilterIds(vec![volume]), &page).await.unwrap_err().class,
        ErrorClass::BadToken
    );
}

/// The errors keep EC2's meaning.
#[tokio::test(start_paused = true)]
async fn hyperpod_node_works_through_port() {
    let sim = sim().await;
    let node = HyperPodNode::parse("hyperpod-abc123def456-i-0123456789abcdef0").unwrap();
    let volume = sim.create_volume(&request("pvc-1")).await.unwrap().id;
    only(&sim, &volume).await;
    let device = sim.attach_cluster_node_volume(&node, &volume).await.unwrap().device;
    let seen = only(&sim, &volume).await.attachments.remove(0);
    assert_eq!((seen.instance.clone(), seen.device.clone()), (None, Some(device)));
    assert_eq!(seen.cluster_node().as_ref(), Some(node.instance()));
    let again = sim.attach_cluster_node_volume(&node, &volume).await.unwrap_err();
    assert_eq!(again.class, ErrorClass::VolumeInUse, "{again}");
    sim.detach_cluster_node_volume(&node, &volume).await.unwrap();
    assert_eq!(only(&sim, &volume).await.attachments, []);
    let gone = sim.detach_cluster_node_volume(&node, &volume).await.unwrap_err();
    assert_eq!(gone.class, ErrorClass::IncorrectState, "{gone}");
    assert_eq!(gone.code.as_deref(), Some("ValidationException"));
    let calls = (sim.count(Action::AttachClusterNodeVolume), sim.count(Action::DescribeInstances));
    assert_eq!(calls, (2, 0));
}

#[tokio::test(start_paused = true)]
async fn status_fast_restores_and_locks_work_through_port() {
    let sim = sim().await;
    let volume = sim.create_volume(&request("pvc-1")).await.unwrap().id;
    let status = sim.describe_volume_status(std::slice::from_ref(&volume), &PageRequest::default()).await.unwrap();
    assert_eq!((status.items[0].volume.clone(), status.items[0].initializing()), (volume.clone(), Some(false)));
    assert!(sim.describe_volume_status(&[], &PageRequest::default()).await.unwrap().items.is_empty());
    let nothing = VolumeId::parse("vol-00000000").unwrap();
    let missing = sim.describe_volume_status(&[volume.clone(), nothing], &PageRequest::default()).await.unwrap_err();
    assert_eq!(missing.class, ErrorClass::VolumeNotFound, "one missing id fails the call");

    let create = CreateSnapshot { volume, description: String::new(), outpost_arn: None, tags: Tags::new() };
    let snapshot = sim.create_snapshot(&create).await.unwrap().id;
    let [good, bad] = ["us-west-2a", "us-west-2z"].map(|zone| ZoneName::parse(zone).unwrap());
    let restores = sim.enable_fast_snapshot_restores(&snapshot, std::slice::from_ref(&good)).await.unwrap();
    assert_eq!((restores.enabled, restores.failures.len()), (vec![good], 0));
    let outcome = sim.enable_fast_snapshot_restores(&snapshot, &[bad]).await;
    assert!(outcome.map_or(true, |restores| !restores.failures.is_empty()), "a zone that is none");

    let lock = LockSnapshot {
        snapshot: snapshot.clone(),
        mode: Some("governance".into()),
        cool_off_hours: None,
        expiration: None,
        duration_days: Some(1),
    };
    sim.lock_snapshot(&lock).await.unwrap();
    assert_eq!(sim.delete_snapshot(&snapshot).await.unwrap_err().class, ErrorClass::SnapshotInUse);
    let until = LockSnapshot {
        expiration: Some(sim.engine().now() + Duration::from_secs(2 * 86_400)),
        duration_days: None,
        ..lock.clone()
    };
    sim.lock_snapshot(&until).await.unwrap();
    let nonsense = LockSnapshot { mode: Some("nonsense".into()), ..lock };
    assert_eq!(sim.lock_snapshot(&nonsense).await.unwrap_err().class, ErrorClass::InvalidParameter);
}

/// Returns the failure of a suite that drops an EC2 after these calls; `None`: it passes.
async fn failure_at_the_end(calls: impl AsyncFnOnce(&SimEc2)) -> Option<String> {
    let sim = SimEc2::start(EngineConfig::default()).await.unwrap();
    calls(&sim).await;
    let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || drop(sim)));
    ended.err().map(|panic| panic.downcast_ref::<String>().cloned().unwrap_or_default())
}

/// The suite fails even if the call failed.
#[tokio::test(start_paused = true)]
async fn call_without_allowing_policy_fails_its_suite() {
    let untagged = || CreateVolume { tags: Tags::new(), ..request("a") };
    let failure = failure_at_the_end(async |sim| drop(sim.create_volume(&untagged()).await.unwrap())).await.unwrap();
    for word in ["CreateVolume", "us-west-2a", "aws:RequestTag/ebs.csi.aws.com/cluster = true"] {
        assert!(failure.contains(word), "{failure}");
    }
    assert_eq!(failure_at_the_end(async |sim| drop(sim.create_volume(&request("a")).await.unwrap())).await, None);
    let by_test = async |sim: &SimEc2| drop(sim.by_test().create_volume(&untagged()).await.unwrap());
    assert_eq!(failure_at_the_end(by_test).await, None);
}

/// Calls that were lost or rejected before EC2 saw them are audited, too.
#[tokio::test(start_paused = true)]
async fn lost_call_is_audited() {
    let untagged = || CreateVolume { tags: Tags::new(), ..request("a") };
    let planned = async |sim: &SimEc2| {
        sim.fail_next(Action::CreateVolume, ErrorClass::Throttled, false);
        sim.create_volume(&untagged()).await.unwrap_err();
    };
    assert!(failure_at_the_end(planned).await.unwrap().contains("CreateVolume"));
    let lost = async |sim: &SimEc2| {
        let rule = crate::faults::Rule::new(crate::faults::Effect::LoseRequest { after_ms: 0 });
        sim.faults().add(rule).unwrap();
        sim.create_volume(&untagged()).await.unwrap_err();
    };
    assert!(failure_at_the_end(lost).await.unwrap().contains("CreateVolume"));
}

#[tokio::test(start_paused = true)]
async fn declared_feature_adds_its_statement() {
    let secret = || CreateVolume { encrypted: true, kms_key_id: Some("alias/mine".to_owned()), ..request("a") };
    let create = async |sim: &SimEc2| drop(sim.create_volume(&secret()).await.unwrap());
    assert!(failure_at_the_end(create).await.unwrap().contains("legacy-example+kms would allow it"));
    let declared = async |sim: &SimEc2| {
        sim.declare(Extra::Kms);
        sim.create_volume(&secret()).await.unwrap();
    };
    assert_eq!(failure_at_the_end(declared).await, None);
}

/// An EC2 that enforces the managed policy.
async fn strict() -> SimEc2 {
    let policy = crate::iam::Policy::parse("managed-v2", crate::iam::Shipped::ManagedV2.text()).unwrap();
    let iam = crate::iam::IamConfig { policies: vec![policy], ..Default::default() };
    SimEc2::start(EngineConfig { iam, ..EngineConfig::default() }).await.unwrap()
}

fn managed(token: &str) -> CreateVolume {
    let tags = Tags::from([("ebs.csi.aws.com/cluster".to_owned(), "true".to_owned())]);
    CreateVolume { tags, ..request(token) }
}

#[tokio::test(start_paused = true)]
async fn enforced_policy_denies_call_before_it_is_executed() {
    let sim = strict().await;
    let own = sim.create_volume(&managed("a")).await.unwrap().id;
    let strangers = sim.by_test().create_volume(&request("b")).await.unwrap().id;
    let [instance, _] = sim.instance_ids().await;
    let attach = |volume: &VolumeId| {
        let device = DeviceName::new("/dev/xvdaa");
        AttachRequest { volume: volume.clone(), instance: instance.clone(), device, card: None }
    };
    let error = sim.attach_volume(&attach(&strangers)).await.unwrap_err();
    assert_eq!((error.class, error.code.as_deref()), (ErrorClass::Unauthorized, Some("UnauthorizedOperation")));
    assert!(only(&sim, &strangers).await.attachments.is_empty());
    sim.attach_volume(&attach(&own)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn dry_run_reports_permission_of_caller() {
    let sim = strict().await;
    let ask = async |request: CreateVolume| {
        let error = sim.create_volume(&CreateVolume { dry_run: true, ..request }).await.unwrap_err();
        error.code.unwrap_or_default()
    };
    assert_eq!(ask(managed("a")).await, "DryRunOperation");
    assert_eq!(ask(request("a")).await, "UnauthorizedOperation");
}

/// The volume is accepted first.
#[tokio::test(start_paused = true)]
async fn volume_with_forbidden_key_vanishes_after_reply() {
    let sim = strict().await;
    sim.declare(Extra::Kms);
    let secret = CreateVolume { encrypted: true, kms_key_id: Some("alias/mine".to_owned()), ..managed("a") };
    let volume = sim.create_volume(&secret).await.unwrap();
    let query = VolumeQuery::FilterIds(vec![volume.id]);
    assert!(sim.describe_volumes(&query, &PageRequest::default()).await.unwrap().items.is_empty());
    let default_key = CreateVolume { encrypted: true, ..managed("b") };
    let kept = sim.create_volume(&default_key).await.unwrap();
    assert_eq!(only(&sim, &kept.id).await.state, VolumeState::Available);
}
