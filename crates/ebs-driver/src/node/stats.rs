use csi_proto::csi::volume_usage::Unit;
use csi_proto::csi::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeUsage};
use ebs_ec2::Bytes;
use ebs_mounter::{Counts, PathKind, Usage};

use super::LinuxNode;
use super::error::{Cause, NodeError};
use super::owner::{self, Owner, not_published};
use super::request::{Handle, VolumePath};
use crate::rpc::Rpc;

/// Returns the usage of the volume at a path. The error is NotFound if the path is not a mount of the volume.
pub(super) async fn run(
    node: &LinuxNode,
    request: &NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, NodeError> {
    let plan = VolumePath::stats(request)?;
    measure(node, &plan).await.map_err(NodeError::during(Rpc::NodeGetVolumeStats, &plan.volume, Some(&plan.path)))
}

async fn measure(node: &LinuxNode, plan: &VolumePath) -> Result<NodeGetVolumeStatsResponse, Cause> {
    let found = plan.path.kind().await.map_err(Cause::io("examine the volume path"))?;
    if found == PathKind::Missing {
        return Err(not_published("it is missing"));
    }
    let (table, at) = owner::topmost(&plan.path).await?;
    let entry = table.topmost(&at).ok_or_else(|| not_published(format!("{found}, where nothing is mounted")))?;
    owner::of_handle(&node.mounter, entry, &plan.volume).await?.ensure_volume()?;
    if found == PathKind::BlockDevice {
        let sized = node.mounter.sized_block_device(&at).await;
        let (number, size) = sized.map_err(Cause::io("get the size of the device"))?;
        // Prove again that the device whose size was read is the volume, because the mount may have changed.
        if let Handle::Volume(volume) = &plan.volume
            && let Owner::Other(other) = owner::of_device(&node.mounter, number, volume).await?
        {
            return Err(not_published(other));
        }
        let usage = VolumeUsage { total: Bytes(size).to_wire(), unit: Unit::Bytes.into(), ..VolumeUsage::default() };
        return Ok(NodeGetVolumeStatsResponse { usage: vec![usage] });
    }
    let counts = Counts::read_of(&at, entry.device).await.map_err(Cause::io("statfs"))?;
    let inodes = counts.inodes()?.map(|usage| wire(usage, Unit::Inodes));
    let usage = std::iter::once(wire(counts.bytes()?, Unit::Bytes)).chain(inodes).collect();
    Ok(NodeGetVolumeStatsResponse { usage })
}

fn wire(usage: Usage, unit: Unit) -> VolumeUsage {
    VolumeUsage { available: usage.available, total: usage.total, used: usage.used, unit: unit.into() }
}
