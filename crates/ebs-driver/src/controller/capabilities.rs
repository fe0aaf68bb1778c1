//! ControllerGetCapabilities: the capabilities that the driver supports.

use csi_proto::csi::controller_service_capability::{Rpc, Type, rpc};
use csi_proto::csi::{ControllerGetCapabilitiesResponse, ControllerServiceCapability};

/// The capabilities of the reference driver in its order, then the additional ones of this driver.
const CAPABILITIES: [rpc::Type; 9] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::CloneVolume,
    rpc::Type::PublishUnpublishVolume,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::ExpandVolume,
    rpc::Type::ModifyVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetSnapshot,
];

pub(super) fn response() -> ControllerGetCapabilitiesResponse {
    let capability = |t: rpc::Type| ControllerServiceCapability { r#type: Some(Type::Rpc(Rpc { r#type: t.into() })) };
    ControllerGetCapabilitiesResponse { capabilities: CAPABILITIES.map(capability).to_vec() }
}
