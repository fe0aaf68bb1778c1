use std::sync::Arc;

use csi_proto::csi::list_snapshots_response::Entry;
use csi_proto::csi::{
    self, CreateSnapshotRequest, CreateSnapshotResponse, DeleteSnapshotRequest, DeleteSnapshotResponse,
    GetSnapshotRequest, GetSnapshotResponse, ListSnapshotsRequest, ListSnapshotsResponse,
};
use ebs_cloud::{Ec2, Snapshot, SnapshotFeatures, SnapshotSpec, SnapshotState};
use ebs_ec2::{SnapshotId, VolumeId};
use tonic::Status;

use super::codes::settled;
use super::handle::{not_node_local, require};
use super::list_volumes::max_entries;
use super::{ControllerError, ControllerOptions, ControllerService, handle};
use crate::operation::Key;
use crate::parameters::SnapshotParameters;
use crate::rpc::Rpc;

pub(super) async fn create<E: Ec2>(
    service: &ControllerService<E>,
    request: CreateSnapshotRequest,
) -> Result<CreateSnapshotResponse, Status> {
    let plan = plan(&request, &service.options)?;
    let cloud = Arc::clone(&service.cloud);
    let Plan { spec, features } = plan.clone();
    let work = move |waiters| async move {
        cloud.snapshots.ensure(&spec, &features, &waiters).await.map_err(ControllerError::during(Rpc::CreateSnapshot))
    };
    let key = Key::CreateSnapshot(request.name);
    let snapshot = service.operations.run(key, plan, Rpc::CreateSnapshot.timeout(), work).await?;
    Ok(CreateSnapshotResponse { snapshot: Some(wire(&snapshot)) })
}

#[derive(Debug, Clone, PartialEq)]
struct Plan {
    spec: SnapshotSpec,
    features: SnapshotFeatures,
}

fn plan(request: &CreateSnapshotRequest, options: &ControllerOptions) -> Result<Plan, ControllerError> {
    require(&request.name, "name")?;
    require(&request.source_volume_id, "source_volume_id")?;
    not_node_local(&request.source_volume_id)?;
    let parameters = SnapshotParameters::parse(&request.parameters)?;
    let tags = options.tags.of_snapshot(&request.name, &parameters)?;
    let volume = handle::volume(&request.source_volume_id)?;
    let SnapshotParameters { features, outpost_arn, .. } = parameters;
    let spec = SnapshotSpec { name: request.name.clone(), volume, outpost_arn, tags };
    Ok(Plan { spec, features })
}

pub(super) async fn delete<E: Ec2>(
    service: &ControllerService<E>,
    request: DeleteSnapshotRequest,
) -> Result<DeleteSnapshotResponse, Status> {
    require(&request.snapshot_id, "snapshot_id")?;
    let Ok(id) = SnapshotId::from_handle(&request.snapshot_id) else {
        tracing::info!(handle = request.snapshot_id, "skipping DeleteSnapshot: the handle is not an EC2 snapshot id");
        return Ok(DeleteSnapshotResponse {});
    };
    let cloud = Arc::clone(&service.cloud);
    let key = Key::Snapshot(id.clone());
    let work = move |waiters| async move { settled(Rpc::DeleteSnapshot, cloud.snapshots.delete(&id, &waiters).await) };
    service.operations.run(key, (), Rpc::DeleteSnapshot.timeout(), work).await?;
    Ok(DeleteSnapshotResponse {})
}

pub(super) async fn list<E: Ec2>(
    service: &ControllerService<E>,
    request: ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse, ControllerError> {
    let max = max_entries(request.max_entries)?;
    if !request.snapshot_id.is_empty() {
        return list_one(service, &request).await;
    }
    let volume = match request.source_volume_id.as_str() {
        "" => None,
        handle => match VolumeId::from_handle(handle) {
            Ok(volume) => Some(volume),
            // A volume with an invalid ID has no snapshots.
            Err(_) => return Ok(ListSnapshotsResponse::default()),
        },
    };
    let token = (!request.starting_token.is_empty()).then_some(request.starting_token);
    let page =
        service.cloud.snapshots.list(volume, max, token).await.map_err(ControllerError::during(Rpc::ListSnapshots))?;
    Ok(ListSnapshotsResponse {
        entries: page.items.iter().map(|s| Entry { snapshot: Some(wire(s)) }).collect(),
        next_token: page.next.unwrap_or_default(),
    })
}

/// Returns a page with the snapshot of this ID, or an empty page if it does not match the request's source volume.
async fn list_one<E: Ec2>(
    service: &ControllerService<E>,
    request: &ListSnapshotsRequest,
) -> Result<ListSnapshotsResponse, ControllerError> {
    if !request.starting_token.is_empty() {
        return Err(ControllerError::NoSuchToken(request.starting_token.clone()));
    }
    let Ok(id) = SnapshotId::from_handle(&request.snapshot_id) else { return Ok(ListSnapshotsResponse::default()) };
    let found = settled(Rpc::ListSnapshots, service.cloud.snapshots.get(&id).await)?;
    let wanted = VolumeId::from_handle(&request.source_volume_id).ok();
    let fits = |s: &Snapshot| request.source_volume_id.is_empty() || (wanted.is_some() && s.source_volume == wanted);
    let entries = found.filter(fits).iter().map(|s| Entry { snapshot: Some(wire(s)) }).collect();
    Ok(ListSnapshotsResponse { entries, next_token: String::new() })
}

pub(super) async fn get<E: Ec2>(
    service: &ControllerService<E>,
    request: GetSnapshotRequest,
) -> Result<GetSnapshotResponse, ControllerError> {
    require(&request.snapshot_id, "snapshot_id")?;
    let id = handle::snapshot(&request.snapshot_id)?;
    let found = service.cloud.snapshots.get(&id).await.map_err(ControllerError::during(Rpc::GetSnapshot))?;
    let missing = || ControllerError::NoSuchSnapshot { snapshot: id.to_string() };
    Ok(GetSnapshotResponse { snapshot: Some(wire(&found.ok_or_else(missing)?)) })
}

fn wire(snapshot: &Snapshot) -> csi::Snapshot {
    csi::Snapshot {
        size_bytes: snapshot.size.bytes().to_wire(),
        snapshot_id: snapshot.id.to_string(),
        source_volume_id: snapshot.source_volume.as_ref().map(ToString::to_string).unwrap_or_default(),
        creation_time: snapshot.started.map(Into::into),
        ready_to_use: snapshot.state == SnapshotState::Completed,
        group_snapshot_id: String::new(),
        accessible_topology: Vec::new(),
    }
}
