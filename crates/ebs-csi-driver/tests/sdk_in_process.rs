//! The SDK over the simulator's HTTP service, in one process and on paused time. The SDK and the simulator's port show
//! the same EC2.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use ebs_aws::{AwsConfig, AwsEc2, Settings, Transport};
use ebs_ec2::{
    AttachRequest, Attachments, ClusterNodes, CopyVolume, CreateSnapshot, CreateVolume, DetachRequest, DeviceName, Ec2,
    ErrorClass, Gib, HyperPodNode, InstanceId, Instances, LockSnapshot, Modification, ModifyVolume, Observation,
    Observer, Page, PageRequest, Place, Result, Snapshot, SnapshotId, SnapshotQuery, Snapshots, Tags, Volume, VolumeId,
    VolumeQuery, VolumeType, Volumes, ZoneName, Zones,
};
use ebs_sim::engine::{Engine, EngineConfig};
use ebs_sim::iam::Extra;
use ebs_sim::port::SimEc2;
use ebs_sim::{AccessKey, Ec2Service};

struct Nobody;

impl Observer for Nobody {
    fn observe(&self, _: &Observation<'_>) {}
}

/// One simulated EC2, reached over the SDK and over the port.
struct Both {
    wire: AwsEc2,
    port: SimEc2,
}

impl Both {
    async fn start() -> Self {
        Self::over(|service| service).await
    }

    async fn over(service: impl FnOnce(Ec2Service) -> Ec2Service) -> Self {
        let engine = Engine::start(EngineConfig::default()).await.unwrap();
        let service = service(Ec2Service::new(engine.clone()));
        let transport = Transport::answering(move |mut request: http::Request<Bytes>| {
            let service = service.clone();
            // The header is signed. On a network, the connection adds it.
            request.headers_mut().insert("host", http::HeaderValue::from_static("sim.invalid"));
            async move { Ok(service.answer(request).await) }
        });
        let settings = Settings {
            transport: Some(transport),
            credentials: Some(ebs_aws::fixed_credentials("AKIATEST", "secret")),
            sts_endpoint: Some("http://sim.invalid".into()),
            ..Settings::default()
        };
        let config = AwsConfig {
            region: "us-west-2".into(),
            ec2_endpoint: Some("http://sim.invalid".into()),
            sagemaker_endpoint: Some("http://sim.invalid".into()),
            user_agent_extra: None,
            version: "v0".into(),
            log_bodies: false,
        };
        let wire = AwsEc2::connect_with(&config, settings, Arc::new(Nobody)).await.unwrap();
        let port = SimEc2::over(engine);
        port.declare(Extra::HyperPod);
        Self { wire, port }
    }

    /// Reads the volume both ways and compares the results.
    async fn volume(&self, id: &VolumeId) -> Volume {
        let query = VolumeQuery::FilterIds(vec![id.clone()]);
        let seen = |page: Result<Page<Volume>>| page.unwrap().items.into_iter().map(volume_to_the_ms).next().unwrap();
        let by_wire = seen(self.wire.describe_volumes(&query, &PageRequest::default()).await);
        assert_eq!(by_wire, seen(self.port.describe_volumes(&query, &PageRequest::default()).await));
        by_wire
    }

    async fn snapshot(&self, id: &SnapshotId) -> Snapshot {
        let query = SnapshotQuery::FilterIds(vec![id.clone()]);
        let seen = |page: Result<Page<Snapshot>>| {
            let mut snapshot = page.unwrap().items.remove(0);
            snapshot.started = snapshot.started.map(to_the_ms);
            snapshot
        };
        let by_wire = seen(self.wire.describe_snapshots(&query, &PageRequest::default()).await);
        assert_eq!(by_wire, seen(self.port.describe_snapshots(&query, &PageRequest::default()).await));
        by_wire
    }
}

/// A test can advance the simulator's clock. A client that adopts the time of its replies then signs by that clock, and
/// other clients sign by the machine's clock. Both are valid.
#[tokio::test(start_paused = true)]
async fn signatures_by_either_clock_are_valid_after_a_jump() {
    let key = AccessKey::parse("AKIATEST:secret").unwrap();
    let both = Both::over(|service| service.with_access_key(key)).await;
    both.wire.check_access().await.unwrap();
    tokio::time::advance(Duration::from_hours(2)).await;
    for _ in 0..3 {
        both.wire.check_access().await.unwrap();
    }
}

/// Rounds to milliseconds, the precision of the XML.
fn to_the_ms(time: SystemTime) -> SystemTime {
    let millis = time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_millis();
    SystemTime::UNIX_EPOCH + Duration::from_millis(u64::try_from(millis).unwrap())
}

fn volume_to_the_ms(mut volume: Volume) -> Volume {
    volume.created = volume.created.map(to_the_ms);
    for attachment in &mut volume.attachments {
        attachment.attach_time = attachment.attach_time.map(to_the_ms);
    }
    volume
}

fn modification_to_the_ms(mut modification: Modification) -> Modification {
    modification.started = modification.started.map(to_the_ms);
    modification
}

/// Returns the tags of an object that the driver may change, plus these.
fn managed<const N: usize>(tags: [(&str, &str); N]) -> Tags {
    let managed = ("ebs.csi.aws.com/cluster", "true");
    tags.into_iter().chain([managed]).map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
}

fn create(token: &str) -> CreateVolume {
    CreateVolume {
        client_token: token.to_owned(),
        place: Place::Zone(ZoneName::parse("us-west-2a").unwrap()),
        size: Gib(20),
        volume_type: VolumeType::Gp3,
        iops: Some(4000),
        throughput: Some(200),
        encrypted: true,
        kms_key_id: None,
        snapshot: None,
        initialization_rate: None,
        multi_attach: false,
        outpost_arn: None,
        tags: managed([("CSIVolumeName", token), ("odd & <key>", "ü \"'\n*?")]),
        dry_run: false,
    }
}

fn snapshot_of(volume: &VolumeId) -> CreateSnapshot {
    CreateSnapshot {
        volume: volume.clone(),
        description: "words".into(),
        outpost_arn: None,
        tags: managed([("CSIVolumeSnapshotName", "s")]),
    }
}

#[tokio::test(start_paused = true)]
async fn sdk_and_port_agree_on_volumes() {
    let both = Both::start().await;
    let none = PageRequest::default();
    let [instance, _] = both.port.instance_ids().await;
    let id = both.wire.create_volume(&create("pvc-1")).await.unwrap().id;
    assert_eq!(both.volume(&id).await.csi_name(), Some("pvc-1"));

    let device = DeviceName::new("/dev/xvdaa");
    let attach = AttachRequest { volume: id.clone(), instance: instance.clone(), device, card: None };
    both.wire.attach_volume(&attach).await.unwrap();
    assert_eq!(both.volume(&id).await.attachments[0].instance.as_ref(), Some(&instance));
    let instances = |page: Result<Page<ebs_ec2::Instance>>| {
        let mut instance = page.unwrap().items.remove(0);
        instance.devices.iter_mut().for_each(|d| d.attach_time = d.attach_time.map(to_the_ms));
        instance
    };
    let ids = std::slice::from_ref(&instance);
    let by_wire = instances(both.wire.describe_instances(ids, &none).await);
    assert_eq!(by_wire, instances(both.port.describe_instances(ids, &none).await));

    let modify =
        ModifyVolume { volume: id.clone(), size: Some(Gib(30)), volume_type: None, iops: Some(5000), throughput: None };
    both.wire.modify_volume(&modify).await.unwrap();
    let volumes = std::slice::from_ref(&id);
    let seen = |page: Result<Page<Modification>>| modification_to_the_ms(page.unwrap().items.remove(0));
    let by_wire = seen(both.wire.describe_modifications(volumes, &none).await);
    assert_eq!(by_wire, seen(both.port.describe_modifications(volumes, &none).await));
    let by_wire = both.wire.describe_volume_status(volumes, &none).await.unwrap();
    assert_eq!(by_wire, both.port.describe_volume_status(volumes, &none).await.unwrap());

    both.wire.create_tags(id.as_str(), &Tags::from([("new".into(), String::new())])).await.unwrap();
    both.wire.delete_tags(id.as_str(), &["odd & <key>".into()]).await.unwrap();
    assert_eq!(
        both.volume(&id).await.tags.keys().collect::<Vec<_>>(),
        ["CSIVolumeName", "ebs.csi.aws.com/cluster", "new"]
    );
    both.wire.detach_volume(&DetachRequest { volume: id.clone(), instance }).await.unwrap();
    assert!(both.volume(&id).await.attachments.is_empty());
    both.wire.delete_volume(&id).await.unwrap();
    let gone = both.port.describe_volumes(&VolumeQuery::FilterIds(vec![id]), &none).await.unwrap();
    assert!(gone.items.is_empty());
}

#[tokio::test(start_paused = true)]
async fn sdk_and_port_agree_on_snapshots_copies_and_zones() {
    let both = Both::start().await;
    let id = both.wire.create_volume(&create("pvc-1")).await.unwrap().id;
    let snapshot = both.wire.create_snapshot(&snapshot_of(&id)).await.unwrap().id;
    assert_eq!(both.snapshot(&snapshot).await.source_volume.as_ref(), Some(&id));
    let zones = ["us-west-2a", "us-west-2z"].map(|zone| ZoneName::parse(zone).unwrap());
    let by_wire = both.wire.enable_fast_snapshot_restores(&snapshot, &zones).await;
    let by_port = both.port.enable_fast_snapshot_restores(&snapshot, &zones).await;
    assert_eq!(by_wire.map_err(|e| e.class), by_port.map_err(|e| e.class));
    let lock = LockSnapshot {
        snapshot: snapshot.clone(),
        mode: Some("governance".into()),
        cool_off_hours: None,
        expiration: None,
        duration_days: Some(1),
    };
    both.wire.lock_snapshot(&lock).await.unwrap();
    assert_eq!(both.port.delete_snapshot(&snapshot).await.unwrap_err().class, ErrorClass::SnapshotInUse);

    let copy = CopyVolume {
        client_token: "copy".into(),
        source: id.clone(),
        size: Gib(40),
        volume_type: VolumeType::Gp3,
        iops: None,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        multi_attach: false,
        tags: managed([]),
    };
    let copied = both.wire.copy_volume(&copy).await.unwrap().id;
    assert_eq!(both.volume(&copied).await.source_volume, Some(id));
    assert_eq!(both.wire.describe_zones().await.unwrap(), both.port.describe_zones().await.unwrap());
    both.wire.check_access().await.unwrap();
    for name in ["m5.large", "r8gb.48xlarge", "x9.huge"] {
        let by_wire = both.wire.describe_instance_type(name).await.unwrap();
        assert_eq!(by_wire, both.port.describe_instance_type(name).await.unwrap(), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn sagemaker_and_port_agree_on_hyperpod_node() {
    let both = Both::start().await;
    let node = HyperPodNode::parse("hyperpod-abc123def456-i-0123456789abcdef0").unwrap();
    let id = both.wire.create_volume(&create("pvc-1")).await.unwrap().id;
    both.volume(&id).await;
    let device = both.wire.attach_cluster_node_volume(&node, &id).await.unwrap().device;
    let attachment = both.volume(&id).await.attachments.remove(0);
    assert_eq!((attachment.cluster_node().as_ref(), attachment.device), (Some(node.instance()), Some(device)));
    both.wire.detach_cluster_node_volume(&node, &id).await.unwrap();
    assert!(both.volume(&id).await.attachments.is_empty());
}

/// Returns the error classes of failed calls, by name.
async fn mishaps(ec2: &impl Ec2, token: &str, instance: &InstanceId) -> Vec<(&'static str, ErrorClass)> {
    let id = ec2.create_volume(&create(token)).await.unwrap().id;
    let page = PageRequest::default();
    let query = VolumeQuery::FilterIds(vec![id.clone()]);
    ec2.describe_volumes(&query, &page).await.unwrap();
    let nothing = VolumeId::parse("vol-00000000").unwrap();
    let odd = VolumeId::parse("vol-zz").unwrap();
    let node = HyperPodNode::parse("hyperpod-abc123def456-i-0123456789abcdef0").unwrap();
    let attach = |volume: &VolumeId, instance: &str, device: &str| AttachRequest {
        volume: volume.clone(),
        instance: InstanceId::parse(instance).unwrap(),
        device: DeviceName::new(device),
        card: None,
    };
    let detach = DetachRequest { volume: id.clone(), instance: instance.clone() };
    let other = CreateVolume { size: Gib(21), ..create(token) };
    let strange = CreateVolume { volume_type: VolumeType::Other("gp9".into()), ..create("strange") };
    let token_page = PageRequest { max_results: None, token: Some("nonsense".into()) };
    let missing = [id.clone(), nothing.clone()];
    vec![
        ("delete a volume that is not", ec2.delete_volume(&nothing).await.unwrap_err().class),
        ("delete what is no volume", ec2.delete_volume(&odd).await.unwrap_err().class),
        ("detach what is not attached", ec2.detach_volume(&detach).await.unwrap_err().class),
        ("no such instance", ec2.attach_volume(&attach(&id, "i-00000000", "/dev/xvdaa")).await.unwrap_err().class),
        ("bad device", ec2.attach_volume(&attach(&id, instance.as_str(), "/dev/x")).await.unwrap_err().class),
        ("token with another size", ec2.create_volume(&other).await.unwrap_err().class),
        ("unknown type", ec2.create_volume(&strange).await.unwrap_err().class),
        ("dry run", ec2.create_volume(&CreateVolume { dry_run: true, ..create("dry") }).await.unwrap_err().class),
        ("paging token", ec2.describe_volumes(&query, &token_page).await.unwrap_err().class),
        ("one missing id", ec2.describe_volume_status(&missing, &page).await.unwrap_err().class),
        ("detach from a node", ec2.detach_cluster_node_volume(&node, &id).await.unwrap_err().class),
        ("attach nothing to a node", ec2.attach_cluster_node_volume(&node, &nothing).await.unwrap_err().class),
    ]
}

#[tokio::test(start_paused = true)]
async fn sdk_and_port_agree_on_error_classes() {
    let both = Both::start().await;
    let [instance, _] = both.port.instance_ids().await;
    let by_wire = mishaps(&both.wire, "by-wire", &instance).await;
    assert_eq!(by_wire, mishaps(&both.port, "by-port", &instance).await);
}
