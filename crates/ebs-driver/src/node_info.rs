//! Builds the response to NodeGetInfo for each operating system.

use std::collections::HashMap;

use csi_proto::csi::{NodeGetInfoResponse, Topology};
use ebs_ec2::DriverName;
use ebs_metadata::{LimitFlags, NodeMetadata, attach_limit};

use crate::topology;

/// Returns the response to NodeGetInfo. `own_at_boot` counts this driver's disks that were attached at boot.
pub fn response(
    metadata: &NodeMetadata,
    driver: &DriverName,
    limits: &LimitFlags,
    own_at_boot: u32,
    os: &str,
) -> NodeGetInfoResponse {
    let others = metadata.block_devices.others(own_at_boot);
    let limit = attach_limit(&metadata.instance_type, others, metadata.network_interfaces, limits);
    let zone = metadata.zone.to_string();
    let mut segments = HashMap::from([
        (driver.legacy_zone_key(), zone.clone()),
        (DriverName::ZONE_KEY.to_owned(), zone),
        (DriverName::OS_KEY.to_owned(), os.to_owned()),
    ]);
    if let Some(outpost) = &metadata.outpost {
        segments.extend(topology::of_outpost(outpost, driver));
    }
    NodeGetInfoResponse {
        node_id: metadata.node.to_string(),
        max_volumes_per_node: i64::from(limit),
        accessible_topology: Some(Topology { segments }),
    }
}
