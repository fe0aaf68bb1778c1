//! One call of each action, about the objects of the corpus.

use std::fmt::Debug;

use ebs_aws::AwsEc2;
use ebs_ec2::{
    AttachRequest, Attachments, ClusterNodes, CopyVolume, CreateSnapshot, CreateVolume, DetachRequest, DeviceName, Gib,
    HyperPodNode, InstanceId, Instances, LockSnapshot, ModifyVolume, PageRequest, Place, Result, SnapshotId,
    SnapshotQuery, Snapshots, Tags, VolumeId, VolumeQuery, VolumeType, Volumes, ZoneName, Zones,
};

pub(crate) const VOLUME: &str = "vol-0aaa1111bbb22222c";
pub(crate) const OTHER: &str = "vol-0ddd3333eee44444f";
pub(crate) const INSTANCE: &str = "i-0123456789abcdef0";
const SNAPSHOT: &str = "snap-0123456789abcdef0";

pub(crate) const MUTATIONS: [&str; 12] = [
    "CreateVolume",
    "CopyVolumes",
    "DeleteVolume",
    "ModifyVolume",
    "AttachVolume",
    "DetachVolume",
    "CreateSnapshot",
    "DeleteSnapshot",
    "CreateTags",
    "DeleteTags",
    "EnableFastSnapshotRestores",
    "LockSnapshot",
];
pub(crate) const READS: [&str; 8] = [
    "DescribeVolumes",
    "DescribeVolumeStatus",
    "DescribeVolumesModifications",
    "DescribeSnapshots",
    "DescribeLockedSnapshots",
    "DescribeInstances",
    "DescribeInstanceTypes",
    "DescribeAvailabilityZones",
];

pub(crate) fn vol(id: &str) -> VolumeId {
    VolumeId::parse(id).unwrap()
}

pub(crate) fn instance(id: &str) -> InstanceId {
    InstanceId::parse(id).unwrap()
}

pub(crate) fn snap(id: &str) -> SnapshotId {
    SnapshotId::parse(id).unwrap()
}

pub(crate) fn zones() -> [ZoneName; 2] {
    ["us-west-2a", "us-west-2b"].map(|zone| ZoneName::parse(zone).unwrap())
}

pub(crate) fn tags() -> Tags {
    Tags::from([("CSIVolumeName".into(), "pvc-1".into()), ("ebs.csi.aws.com/cluster".into(), "true".into())])
}

/// Returns a query to which any page is a valid reply.
pub(crate) fn all_snapshots() -> SnapshotQuery {
    SnapshotQuery::Owned { volume: None }
}

pub(crate) fn create() -> CreateVolume {
    let [zone, _] = zones();
    CreateVolume { tags: tags(), ..CreateVolume::plain("token", Place::Zone(zone), Gib(4), VolumeType::Gp3) }
}

pub(crate) fn copy(source: &VolumeId) -> CopyVolume {
    CopyVolume {
        client_token: "token".into(),
        source: source.clone(),
        size: Gib(8),
        volume_type: VolumeType::Io2,
        iops: None,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        multi_attach: true,
        tags: Tags::new(),
    }
}

pub(crate) fn modify(volume: &VolumeId) -> ModifyVolume {
    ModifyVolume { volume: volume.clone(), size: Some(Gib(9)), volume_type: None, iops: None, throughput: None }
}

pub(crate) fn attach(volume: &VolumeId, instance: &InstanceId) -> AttachRequest {
    let device = DeviceName::new("/dev/xvdaa");
    AttachRequest { volume: volume.clone(), instance: instance.clone(), device, card: None }
}

pub(crate) fn detach(volume: &VolumeId, instance: &InstanceId) -> DetachRequest {
    DetachRequest { volume: volume.clone(), instance: instance.clone() }
}

pub(crate) fn snapshot_of(volume: &VolumeId) -> CreateSnapshot {
    CreateSnapshot { volume: volume.clone(), description: "words".into(), outpost_arn: None, tags: tags() }
}

/// Returns a lock request without mode and times, which EC2 refuses.
pub(crate) fn lock(snapshot: &SnapshotId) -> LockSnapshot {
    LockSnapshot { snapshot: snapshot.clone(), mode: None, cool_off_hours: None, expiration: None, duration_days: None }
}

/// The objects that a call is about. An action on one object uses the first of its kind.
pub(crate) struct Objects {
    pub(crate) volumes: Vec<VolumeId>,
    pub(crate) instances: Vec<InstanceId>,
    pub(crate) snapshot: SnapshotId,
}

impl Objects {
    pub(crate) fn of_corpus() -> Self {
        Self {
            volumes: [VOLUME, OTHER].map(vol).to_vec(),
            instances: vec![instance(INSTANCE)],
            snapshot: snap(SNAPSHOT),
        }
    }

    /// Returns objects that occur in no reply of the corpus.
    pub(crate) fn strange() -> Self {
        Self { volumes: vec![vol("vol-1")], instances: vec![instance("i-1")], snapshot: snap("snap-1") }
    }
}

pub(crate) async fn call(ec2: &AwsEc2, action: &str, about: &Objects) -> Result<String> {
    let Objects { volumes, instances, snapshot } = about;
    let (volume, on, page) = (&volumes[0], &instances[0], PageRequest::default());
    let node = HyperPodNode::parse(&format!("hyperpod-c-{on}")).unwrap();
    Ok(match action {
        "CreateVolume" => text(ec2.create_volume(&create()).await?),
        "CopyVolumes" => text(ec2.copy_volume(&copy(volumes.last().unwrap())).await?),
        "DeleteVolume" => text(ec2.delete_volume(volume).await?),
        "ModifyVolume" => text(ec2.modify_volume(&modify(volume)).await?),
        "AttachVolume" => text(ec2.attach_volume(&attach(volume, on)).await?),
        "DetachVolume" => text(ec2.detach_volume(&detach(volume, on)).await?),
        "CreateSnapshot" => text(ec2.create_snapshot(&snapshot_of(volume)).await?),
        "DeleteSnapshot" => text(ec2.delete_snapshot(snapshot).await?),
        "CreateTags" => text(ec2.create_tags(volume.as_str(), &tags()).await?),
        "DeleteTags" => text(ec2.delete_tags(volume.as_str(), &["k".into()]).await?),
        "EnableFastSnapshotRestores" => text(ec2.enable_fast_snapshot_restores(snapshot, &zones()).await?),
        "LockSnapshot" => text(ec2.lock_snapshot(&lock(snapshot)).await?),
        "DescribeVolumes" => text(ec2.describe_volumes(&VolumeQuery::FilterIds(volumes.clone()), &page).await?),
        "DescribeVolumeStatus" => text(ec2.describe_volume_status(&volumes[..1], &page).await?),
        "DescribeVolumesModifications" => text(ec2.describe_modifications(&volumes[..1], &page).await?),
        "DescribeSnapshots" => {
            text(ec2.describe_snapshots(&SnapshotQuery::FilterIds(vec![snapshot.clone()]), &page).await?)
        }
        "DescribeLockedSnapshots" => text(ec2.describe_lock(snapshot).await?),
        "DescribeInstances" => text(ec2.describe_instances(instances, &page).await?),
        "DescribeInstanceTypes" => text(ec2.describe_instance_type("r8gb.48xlarge").await?),
        "DescribeAvailabilityZones" => text(ec2.describe_zones().await?),
        "AttachClusterNodeVolume" => text(ec2.attach_cluster_node_volume(&node, volume).await?),
        "DetachClusterNodeVolume" => text(ec2.detach_cluster_node_volume(&node, volume).await?),
        other => panic!("the driver does not call {other}"),
    })
}

fn text(result: impl Debug) -> String {
    format!("{result:?}")
}
