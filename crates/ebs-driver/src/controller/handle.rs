use ebs_ec2::{DeviceName, NodeId, SnapshotId, VolumeId};

use super::{ControllerError, ControllerOptions};
use crate::volume_handle::NODE_LOCAL;

pub(super) fn is_node_local(handle: &str) -> bool {
    handle.starts_with(NODE_LOCAL)
}

pub(super) fn require(value: &str, field: &'static str) -> Result<(), ControllerError> {
    if value.is_empty() { Err(ControllerError::Missing { field }) } else { Ok(()) }
}

pub(super) fn not_node_local(handle: &str) -> Result<(), ControllerError> {
    if is_node_local(handle) {
        return Err(ControllerError::NodeLocal { handle: handle.to_owned() });
    }
    Ok(())
}

pub(super) fn node_local_device(
    handle: &str,
    options: &ControllerOptions,
) -> Result<Option<DeviceName>, ControllerError> {
    let Some(device) = handle.strip_prefix(NODE_LOCAL) else { return Ok(None) };
    if !options.node_local_volumes {
        return Err(ControllerError::NodeLocalOff { handle: handle.to_owned() });
    }
    if device.trim_matches('/').is_empty() {
        return Err(ControllerError::NodeLocalHandle { handle: handle.to_owned() });
    }
    Ok(Some(DeviceName::new(format!("/{}", device.trim_start_matches('/')))))
}

pub(super) fn volume(handle: &str) -> Result<VolumeId, ControllerError> {
    VolumeId::from_handle(handle).map_err(|_| ControllerError::NoSuchId { kind: "volume", id: handle.to_owned() })
}

pub(super) fn snapshot(handle: &str) -> Result<SnapshotId, ControllerError> {
    SnapshotId::from_handle(handle).map_err(|_| ControllerError::NoSuchId { kind: "snapshot", id: handle.to_owned() })
}

pub(super) fn node(id: &str) -> Result<NodeId, ControllerError> {
    NodeId::parse(id).map_err(|_| ControllerError::NoSuchId { kind: "node", id: id.to_owned() })
}
