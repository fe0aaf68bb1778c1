//! NodeGetInfo (`node.md` 15): who this node is, where it is and how many volumes it can have.

use std::collections::HashMap;

use csi_proto::csi::{NodeGetInfoResponse, Topology};
use ebs_metadata::attach_limit;
use ebs_types::DriverName;

use super::Inner;
use crate::topology;

/// Never fails: when the metadata source does not answer, what it said last counts.
pub(super) async fn run(node: &Inner) -> NodeGetInfoResponse {
    let metadata = node.options.machine.refreshed().await;
    let others = metadata.block_devices.others(node.mounter.own_volumes_at_boot());
    let limit = attach_limit(&metadata.instance_type, others, metadata.network_interfaces, &node.options.limits);
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
