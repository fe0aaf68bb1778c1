//! Ids as orchestrators write them (`decisions.md` D-3, D-17).

use ebs_types::{NodeId, SnapshotId, VolumeId};

use super::ControllerError;

/// Prefix of handles of node-local volumes, which later versions support.
const NODE_LOCAL: &str = "local-ebs://";

pub(super) fn is_node_local(handle: &str) -> bool {
    handle.starts_with(NODE_LOCAL)
}

/// Refuses an empty field.
pub(super) fn require(value: &str, field: &'static str) -> Result<(), ControllerError> {
    if value.is_empty() { Err(ControllerError::Missing { field }) } else { Ok(()) }
}

/// Refuses the handle of a node-local volume.
pub(super) fn not_node_local(handle: &str) -> Result<(), ControllerError> {
    if is_node_local(handle) {
        return Err(ControllerError::NotYet { what: "node-local volume", id: handle.to_owned() });
    }
    Ok(())
}

/// The volume of a handle.
pub(super) fn volume(handle: &str) -> Result<VolumeId, ControllerError> {
    VolumeId::from_handle(handle).map_err(|_| ControllerError::NoSuchId { kind: "volume", id: handle.to_owned() })
}

/// The snapshot of a handle.
pub(super) fn snapshot(handle: &str) -> Result<SnapshotId, ControllerError> {
    SnapshotId::from_handle(handle).map_err(|_| ControllerError::NoSuchId { kind: "snapshot", id: handle.to_owned() })
}

/// The node of an id.
pub(super) fn node(id: &str) -> Result<NodeId, ControllerError> {
    NodeId::parse(id).map_err(|_| ControllerError::NoSuchId { kind: "node", id: id.to_owned() })
}
