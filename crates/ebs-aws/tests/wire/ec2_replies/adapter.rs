//! The same bytes through the SDK, over loopback HTTP.

use ebs_ec2::{
    AttachRequest, Attachments, ClusterNodes, CopyVolume, CreateSnapshot, CreateVolume, DetachRequest, DeviceName,
    Ec2Error, Gib, HyperPodNode, InstanceId, Instances, LockSnapshot, ModifyVolume, PageRequest, Place, SnapshotId,
    SnapshotQuery, Snapshots, Tags, VolumeId, VolumeType, Volumes, ZoneName,
};

use super::account::{Said, all_of, of};
use crate::hyperpod;
use crate::server::{Reply, Wire};

/// Returns the name of the class that the adapter assigns to a reply to the action, or `ok` for success. For an action
/// that the driver never calls, it uses a creation.
pub(super) async fn class_of(action: &str, said: &Said) -> String {
    let reply = Reply::Say(said.status, said.body.clone());
    let replies = if action.ends_with("ClusterNodeVolume") { vec![hyperpod::known(), reply] } else { vec![reply] };
    let wire = Wire::answering(replies).await;
    // A successful reply must be about the requested object.
    let volume = of(&said.body, "volumeId").map_or_else(volume, |id| VolumeId::parse(&id).unwrap());
    let instance = of(&said.body, "instanceId").map_or_else(instance, |id| InstanceId::parse(&id).unwrap());
    let outcome = match action {
        "AttachClusterNodeVolume" | "DetachClusterNodeVolume" => of_node(action, &wire).await,
        _ if action.contains("Snapshot") => of_snapshot(action, &wire).await,
        "AttachVolume" => {
            let device = DeviceName::new("/dev/xvdaa");
            wire.ec2.attach_volume(&AttachRequest { volume, instance, device, card: None }).await.map(drop)
        }
        "DetachVolume" => wire.ec2.detach_volume(&DetachRequest { volume, instance }).await.map(drop),
        "DescribeInstances" => {
            let all = all_of(&said.body, "instanceId").into_iter().map(|id| InstanceId::parse(&id).unwrap());
            let ids: Vec<InstanceId> = all.chain([instance]).collect();
            wire.ec2.describe_instances(&ids, &PageRequest::default()).await.map(drop)
        }
        _ => of_volume(action, &wire, volume).await,
    };
    match outcome {
        Ok(()) => "ok".to_owned(),
        Err(error) => {
            let class = format!("{:?}", error.class);
            if error.code.as_deref() == Some(said.code.as_str()) { class } else { format!("{class} of {error}") }
        }
    }
}

fn volume() -> VolumeId {
    VolumeId::parse("vol-0123456789abcdef0").unwrap()
}

fn instance() -> InstanceId {
    InstanceId::parse("i-0123456789abcdef0").unwrap()
}

async fn of_node(action: &str, wire: &Wire) -> Result<(), Ec2Error> {
    let node = HyperPodNode::parse("hyperpod-c-i-0123456789abcdef0").unwrap();
    match action {
        "AttachClusterNodeVolume" => wire.ec2.attach_cluster_node_volume(&node, &volume()).await.map(drop),
        _ => wire.ec2.detach_cluster_node_volume(&node, &volume()).await,
    }
}

async fn of_snapshot(action: &str, wire: &Wire) -> Result<(), Ec2Error> {
    let snapshot = SnapshotId::parse("snap-0123456789abcdef0").unwrap();
    let page = PageRequest::default();
    match action {
        "CreateSnapshot" => {
            let tags = Tags::new();
            let request = CreateSnapshot { volume: volume(), description: String::new(), outpost_arn: None, tags };
            wire.ec2.create_snapshot(&request).await.map(drop)
        }
        "DeleteSnapshot" => wire.ec2.delete_snapshot(&snapshot).await,
        "LockSnapshot" => {
            let (mode, duration_days) = (Some("governance".to_owned()), Some(1));
            let request = LockSnapshot { snapshot, mode, cool_off_hours: None, expiration: None, duration_days };
            wire.ec2.lock_snapshot(&request).await
        }
        "EnableFastSnapshotRestores" => {
            let zones = [ZoneName::parse("us-west-2a").unwrap()];
            wire.ec2.enable_fast_snapshot_restores(&snapshot, &zones).await.map(drop)
        }
        "DescribeLockedSnapshots" => wire.ec2.describe_lock(&snapshot).await.map(drop),
        "DescribeSnapshots" => {
            wire.ec2.describe_snapshots(&SnapshotQuery::Owned { volume: None }, &page).await.map(drop)
        }
        other => panic!("{other} is no action of snapshots"),
    }
}

async fn of_volume(action: &str, wire: &Wire, volume: VolumeId) -> Result<(), Ec2Error> {
    let (page, zone) = (PageRequest::default(), Place::Zone(ZoneName::parse("us-west-2a").unwrap()));
    match action {
        "CreateVolume" | "RunInstances" => {
            let request = CreateVolume::plain("token", zone, Gib(4), VolumeType::Gp3);
            wire.ec2.create_volume(&request).await.map(drop)
        }
        "CopyVolumes" => wire.ec2.copy_volume(&copy(volume)).await.map(drop),
        "DeleteVolume" => wire.ec2.delete_volume(&volume).await,
        "DescribeVolumes" => wire.ec2.describe_volumes(&crate::server::managed_volumes(), &page).await.map(drop),
        "DescribeVolumesModifications" => wire.ec2.describe_modifications(&[volume], &page).await.map(drop),
        "CreateTags" => wire.ec2.create_tags(volume.as_str(), &Tags::new()).await,
        "ModifyVolume" => {
            let (size, volume_type, iops, throughput) = (Some(Gib(5)), None, None, None);
            let request = ModifyVolume { volume, size, volume_type, iops, throughput };
            wire.ec2.modify_volume(&request).await.map(drop)
        }
        other => panic!("the driver does not call {other}"),
    }
}

fn copy(source: VolumeId) -> CopyVolume {
    CopyVolume {
        client_token: "token".to_owned(),
        source,
        size: Gib(4),
        volume_type: VolumeType::Gp3,
        iops: None,
        throughput: None,
        encrypted: false,
        kms_key_id: None,
        multi_attach: false,
        tags: Tags::new(),
    }
}
