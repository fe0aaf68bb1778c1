use std::collections::HashMap;

use csi_proto::csi::list_volumes_response::Entry;
use csi_proto::csi::{self, ListVolumesRequest, ListVolumesResponse};
use ebs_cloud::{Ec2, Volume};
use ebs_ec2::DriverName;

use super::{ControllerError, ControllerService};
use crate::rpc::Rpc;
use crate::topology;

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: ListVolumesRequest,
) -> Result<ListVolumesResponse, ControllerError> {
    let max = max_entries(request.max_entries)?;
    let token = (!request.starting_token.is_empty()).then_some(request.starting_token);
    let page = service.cloud.volumes.list(max, token).await.map_err(ControllerError::during(Rpc::ListVolumes))?;
    Ok(ListVolumesResponse {
        entries: page.items.iter().map(|volume| entry(volume, &service.options.driver)).collect(),
        next_token: page.next.unwrap_or_default(),
    })
}

/// Returns the requested page length. 0 leaves the length to the driver.
pub(super) fn max_entries(wire: i32) -> Result<u32, ControllerError> {
    u32::try_from(wire).map_err(|_| ControllerError::MaxEntries(wire))
}

fn entry(volume: &Volume, driver: &DriverName) -> Entry {
    Entry {
        volume: Some(csi::Volume {
            capacity_bytes: volume.size.bytes().to_wire(),
            volume_id: volume.id.to_string(),
            volume_context: HashMap::new(),
            content_source: None,
            accessible_topology: topology::of_volume(volume, driver).ok().flatten().into_iter().collect(),
        }),
        status: None,
    }
}
