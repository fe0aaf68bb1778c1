//! NodeGetInfo (`node.md` 15): who this node is, where it is and how many volumes it can have.

use std::collections::HashMap;

use csi_proto::csi::{NodeGetInfoResponse, Topology};
use ebs_metadata::attach_limit;
use ebs_types::DriverName;

use super::Inner;
use crate::topology;

/// Never fails: when the metadata service does not answer, the last known number of network interfaces counts.
pub(super) async fn run(node: &Inner) -> NodeGetInfoResponse {
    let metadata = &node.options.metadata;
    let interfaces = interfaces(node).await;
    // The metadata counts what was attached when the machine booted, the driver's own volumes among them.
    let others = metadata.block_devices.saturating_sub(node.mounter.own_volumes_at_boot());
    let limit = attach_limit(&metadata.instance_type, others, interfaces, &node.options.limits);
    let zone = metadata.zone.to_string();
    let mut segments = HashMap::from([
        (node.options.driver.legacy_zone_key(), zone.clone()),
        (DriverName::ZONE_KEY.to_owned(), zone),
        (DriverName::OS_KEY.to_owned(), std::env::consts::OS.to_owned()),
    ]);
    if let Some(outpost) = &metadata.outpost {
        segments.extend(topology::of_outpost(outpost, &node.options.driver));
    }
    NodeGetInfoResponse {
        node_id: metadata.node.to_string(),
        max_volumes_per_node: i64::from(limit),
        accessible_topology: Some(Topology { segments }),
    }
}

async fn interfaces(node: &Inner) -> u32 {
    use std::sync::atomic::Ordering::Relaxed;
    let Some(imds) = &node.imds else { return node.interfaces.load(Relaxed) };
    match imds.refresh_interfaces().await {
        Ok(count) => node.interfaces.store(count, Relaxed),
        Err(error) => {
            tracing::warn!(error = %crate::status::chain(&error), "the network interfaces could not be counted again")
        }
    }
    node.interfaces.load(Relaxed)
}
