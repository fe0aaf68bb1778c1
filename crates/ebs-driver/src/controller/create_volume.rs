use std::sync::Arc;

use csi_proto::csi::volume_content_source::Type as SourceType;
use csi_proto::csi::{self, CreateVolumeRequest, CreateVolumeResponse, VolumeContentSource};
use ebs_cloud::{Ec2, Source, Topology, Volume, VolumeSpec};
use ebs_ec2::{DriverName, VolumeType};
use tonic::Status;

use super::handle::{not_node_local, require};
use super::{ControllerError, ControllerOptions, ControllerService, handle};
use crate::capability::{self, Access, Capability};
use crate::context::VolumeContext;
use crate::operation::Key;
use crate::parameters::{MutableParameters, ParameterError, VolumeParameters, check_format_options, iops_request};
use crate::rpc::Rpc;
use crate::{capacity, topology};

struct Plan {
    spec: VolumeSpec,
    context: VolumeContext,
    content_source: Option<VolumeContentSource>,
}

/// The content by which two requests are compared: everything except the order of topology terms.
#[derive(Clone, PartialEq)]
struct Content {
    spec: VolumeSpec,
    context: VolumeContext,
}

impl Plan {
    fn content(&self) -> Content {
        let spec = VolumeSpec { topology: topology::in_one_order(&self.spec.topology), ..self.spec.clone() };
        Content { spec, context: self.context.clone() }
    }

    fn reply(&self, volume: &Volume, driver: &DriverName) -> Result<CreateVolumeResponse, ControllerError> {
        let id = || volume.id.to_string();
        let place = topology::of_volume(volume, driver)
            .map_err(|cause| ControllerError::OutpostUnknown { volume: id(), cause })?
            .ok_or_else(|| ControllerError::ZoneUnknown { volume: id() })?;
        Ok(CreateVolumeResponse {
            volume: Some(csi::Volume {
                capacity_bytes: volume.size.bytes().to_wire(),
                volume_id: volume.id.to_string(),
                volume_context: self.context.to_map(),
                content_source: self.content_source.clone(),
                accessible_topology: vec![place],
            }),
        })
    }
}

pub(super) async fn run<E: Ec2>(
    service: &ControllerService<E>,
    request: CreateVolumeRequest,
) -> Result<CreateVolumeResponse, Status> {
    let plan = plan(&request, &service.options)?;
    let spec = plan.spec.clone();
    let cloud = Arc::clone(&service.cloud);
    let work = move |waiters| async move {
        cloud.volumes.create(&spec, &waiters).await.map_err(ControllerError::during(Rpc::CreateVolume))
    };
    let key = Key::CreateVolume(request.name);
    let volume = service.operations.run(key, plan.content(), Rpc::CreateVolume.timeout(), work).await?;
    Ok(plan.reply(&volume, &service.options.driver)?)
}

/// Parses the request in the order of the reference driver, so that a request with several errors gets the same error.
fn plan(request: &CreateVolumeRequest, options: &ControllerOptions) -> Result<Plan, ControllerError> {
    require(&request.name, "name")?;
    let capabilities = capability::parse_all(&request.volume_capabilities)?;
    capability::log_without_effect(&request.volume_capabilities);
    // Check the size with a default type, so that an invalid size is reported before an invalid parameter.
    capacity::for_new_volume(request.capacity_range.as_ref(), &VolumeType::Gp3)?;
    let mut parameters = VolumeParameters::parse(&request.parameters)?;
    let mutable = MutableParameters::parse(&request.mutable_parameters)?;
    mutable.override_in(&mut parameters);
    let accesses: Vec<Access> = capabilities.iter().map(|c| c.access.clone()).collect();
    parameters.keep_applicable(&request.name, &mutable, is_restored(request), &accesses);
    let volume_type = parameters.volume_type.clone().unwrap_or(VolumeType::Gp3);
    let iops = iops_request(parameters.iops, parameters.iops_per_gib)?;
    let tags = options.tags.of_volume(&request.name, &parameters, &mutable)?;
    check_format_options(&parameters.format, &accesses)?;
    let multi_attach = multi_attach(&capabilities, &volume_type)?;
    let source = source(request.volume_content_source.as_ref())?;
    let encrypted = encrypted(&parameters);
    let topology: Topology = topology::parse(request.accessibility_requirements.as_ref(), &options.driver)?;
    let systems = topology::operating_systems(request.accessibility_requirements.as_ref());
    capability::check_mounts(&request.volume_capabilities, systems.as_ref())?;
    let capacity = capacity::for_new_volume(request.capacity_range.as_ref(), &volume_type)?;
    if source == Source::Blank {
        // A volume from a snapshot or another volume already has a file system.
        capacity::check_file_systems(&capacity, &accesses, &parameters.format)?;
    }
    let context = VolumeContext {
        format: parameters.format,
        format_blank_restore: parameters.format_blank_restore,
        attach_when_initialized: parameters.block_until_initialized,
    };
    let spec = VolumeSpec {
        name: request.name.clone(),
        capacity,
        volume_type,
        iops,
        raise_iops_to_min: parameters.raise_iops_to_min,
        throughput: parameters.throughput,
        encrypted,
        kms_key_id: parameters.kms_key_id,
        source,
        topology,
        multi_attach,
        initialization_rate: parameters.initialization_rate,
        tags,
    };
    Ok(Plan { spec, context, content_source: request.volume_content_source.clone() })
}

fn multi_attach(capabilities: &[Capability], volume_type: &VolumeType) -> Result<bool, ParameterError> {
    let wanted = capabilities.iter().any(|c| c.multi_node);
    if wanted && *volume_type != VolumeType::Io2 {
        return Err(ParameterError::MultiAttachType { volume_type: volume_type.clone() });
    }
    Ok(wanted)
}

fn is_restored(request: &CreateVolumeRequest) -> bool {
    let source = request.volume_content_source.as_ref().and_then(|source| source.r#type.as_ref());
    matches!(source, Some(SourceType::Snapshot(_)))
}

fn source(wire: Option<&VolumeContentSource>) -> Result<Source, ControllerError> {
    let Some(wire) = wire else { return Ok(Source::Blank) };
    match &wire.r#type {
        Some(SourceType::Snapshot(s)) if !s.snapshot_id.is_empty() => {
            Ok(Source::Snapshot(handle::snapshot(&s.snapshot_id)?))
        }
        Some(SourceType::Volume(v)) if !v.volume_id.is_empty() => {
            not_node_local(&v.volume_id)?;
            Ok(Source::Volume(handle::volume(&v.volume_id)?))
        }
        _ => Err(ControllerError::EmptySource),
    }
}

/// Returns whether the request asks for encryption. A KMS key requests it even without `encrypted`. `encrypted: false`
/// has no effect: EC2 still encrypts the volume if the account's setting or the source requires it.
fn encrypted(parameters: &VolumeParameters) -> bool {
    if parameters.encrypted == Some(false) && parameters.kms_key_id.is_some() {
        tracing::warn!("encrypting the volume with kmsKeyId, although parameter encrypted is false");
    }
    parameters.encrypted == Some(true) || parameters.kms_key_id.is_some()
}
