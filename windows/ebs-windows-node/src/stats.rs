//! NodeGetVolumeStats returns bytes, as Windows reports them at the path. NTFS has no limit on the number of inodes.

use csi_proto::csi::volume_usage::Unit;
use csi_proto::csi::{NodeGetVolumeStatsRequest, NodeGetVolumeStatsResponse, VolumeUsage};
use ebs_driver::rpc::Rpc;
use ebs_ec2::Bytes;

use crate::WindowsNode;
use crate::disks::Disks;
use crate::error::{Cause, NodeError};
use crate::request::At;

/// Returns the usage of the volume at a path. Reports "not found" if the path does not lead to the volume.
pub(crate) async fn run(
    node: &WindowsNode,
    request: NodeGetVolumeStatsRequest,
) -> Result<NodeGetVolumeStatsResponse, NodeError> {
    let plan = At::stats(&request)?;
    let ended = node.blocking(move |disks| {
        look(disks, &plan).map_err(NodeError::during(Rpc::NodeGetVolumeStats, &plan.volume, &plan.path))
    });
    Ok(NodeGetVolumeStatsResponse { usage: vec![ended.await?] })
}

fn look(disks: &Disks, plan: &At) -> Result<VolumeUsage, Cause> {
    let path = plan.path.to_string();
    disks.published(&path, &plan.volume)?;
    let space = disks.storage.space(&path)?;
    Ok(VolumeUsage {
        available: Bytes(space.available).to_wire(),
        total: Bytes(space.total).to_wire(),
        used: Bytes(space.total.saturating_sub(space.free)).to_wire(),
        unit: Unit::Bytes.into(),
    })
}
