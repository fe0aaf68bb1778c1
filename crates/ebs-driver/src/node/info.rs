//! NodeGetInfo of this machine.

use csi_proto::csi::NodeGetInfoResponse;

use super::Inner;
use crate::node_info;

/// Returns the response to NodeGetInfo. It never fails: when the metadata source does not answer, the last known
/// metadata is used.
pub(super) async fn run(node: &Inner) -> NodeGetInfoResponse {
    let (metadata, options) = (node.options.machine.refreshed().await, &node.options);
    let own = node.mounter.own_volumes_at_boot();
    node_info::answer(&metadata, &options.driver, &options.limits, own, std::env::consts::OS)
}
