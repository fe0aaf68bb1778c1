//! The errors for a creation that failed.

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Gib, Volume};

use super::new_request::size_of;
use super::request::CreateRequest;
use super::{Creation, plan};
use crate::error_map::map_error;
use crate::op_context::OpContext;
use crate::{CapacityRequest, CloudError, CloudErrorKind, Object, Source, VolumeSpec};

pub(super) async fn request_refused<E: Ec2>(
    creation: &Creation<'_, E>,
    request: &CreateRequest,
    error: Ec2Error,
) -> CloudError {
    let &Creation { service, op, spec } = creation;
    service.memory.forget_request(&spec.name);
    match (error.class, &spec.source) {
        (ErrorClass::InsufficientCapacity, _) => no_room(creation, request, error),
        // A clone cannot move to another zone. For other volumes, treat this error as a lack of capacity.
        (ErrorClass::VolumeTypeNotInZone, Source::Blank | Source::Snapshot(_)) => no_room(creation, request, error),
        (ErrorClass::SnapshotNotFound | ErrorClass::MalformedId, Source::Snapshot(id)) => {
            CloudError::source_not_found(Object::Snapshot(id.clone())).caused_by(error)
        }
        (ErrorClass::VolumeNotFound | ErrorClass::MalformedId, Source::Volume(id)) => {
            CloudError::source_not_found(Object::Volume(id.clone())).caused_by(error)
        }
        (ErrorClass::InvalidParameter | ErrorClass::Unsupported, _) if is_size_of_no_volume(spec, request.size()) => {
            let (size, volume_type) = (request.size(), &spec.volume_type);
            let message = format!(
                "{op}: required_bytes rounds up to {size}, which is not a valid size of a {volume_type} volume"
            );
            CloudErrorKind::OutOfRange.error(message).caused_by(error)
        }
        (ErrorClass::InvalidParameter | ErrorClass::Unsupported, Source::Snapshot(id)) => {
            // EC2 does not report which parameter is invalid. Compare the size with the snapshot's.
            let needs = size_of(service, op, id).await.ok();
            let asked = CapacityRequest { required: Some(request.size()), ..spec.capacity.clone() };
            match plan::size(&asked, &spec.volume_type, needs.as_ref()) {
                Err(e) if e.kind == CloudErrorKind::OutOfRange => e.caused_by(error),
                _ => map_error(op, error),
            }
        }
        _ => map_error(op, error),
    }
}

fn no_room<E: Ec2>(creation: &Creation<'_, E>, request: &CreateRequest, error: Ec2Error) -> CloudError {
    let &Creation { service, op, spec } = creation;
    let tried = match request.site() {
        None => "the zone of the source".to_owned(),
        Some(site) => {
            let tried = service.memory.record_without_room(&spec.name, site);
            let names: Vec<_> = tried.iter().map(ToString::to_string).collect();
            names.join(", ")
        }
    };
    let is_bound = matches!(spec.source, Source::Volume(_)) || plan::named_sites(&spec.topology).len() == 1;
    let next = if is_bound { "the request allows no other zone" } else { "call again to use another zone" };
    let message = format!("{op}: EC2 has no capacity for this volume, or does not offer its type, in {tried}; {next}");
    CloudErrorKind::InsufficientCapacity.error(message).caused_by(error)
}

/// Returns true if this version believes that the type does not support the size. EC2 still decides.
fn is_size_of_no_volume(spec: &VolumeSpec, size: Gib) -> bool {
    spec.volume_type.size_range().is_some_and(|(min, max)| size < min || size > max)
}

/// Returns true if the request itself causes the error, so that no process can have created a volume for it.
pub(super) fn is_of_the_request_alone(spec: &VolumeSpec, error: &CloudError) -> bool {
    spec.source == Source::Blank
        && error.cause.is_none()
        && matches!(error.kind, CloudErrorKind::InvalidArgument | CloudErrorKind::OutOfRange)
}

fn key_hint(spec: &VolumeSpec) -> String {
    match &spec.kms_key_id {
        Some(key) => {
            format!(
                ", usually because the KMS key {key} does not exist, is disabled, or does not allow use by the driver"
            )
        }
        None if spec.encrypted => ", usually because the default KMS key does not allow use by the driver".to_owned(),
        None => String::new(),
    }
}

pub(super) fn has_vanished(op: &OpContext<'_>, spec: &VolumeSpec, volume: &Volume) -> CloudError {
    let hint = key_hint(spec);
    let kind = if hint.is_empty() { CloudErrorKind::Internal } else { CloudErrorKind::FailedPrecondition };
    kind.error(format!(
        "{op}: EC2 accepted the request and created {}, but the volume then disappeared{hint}",
        volume.id
    ))
}

pub(super) fn was_broken(op: &OpContext<'_>, spec: &VolumeSpec, volume: &Volume) -> CloudError {
    let hint = key_hint(spec);
    let message =
        format!("{op}: {} went into state error{hint}, so the driver deleted the volume; try again", volume.id);
    CloudErrorKind::FailedPrecondition.error(message)
}

pub(super) fn out_of_time(op: &OpContext<'_>) -> CloudError {
    let message = format!("{op}: EC2 gave no clear answer in time and no volume remains; try again");
    CloudErrorKind::Unavailable.error(message)
}
