//! Computes the CreateVolume request from the specification, the source, and the sites that have capacity.

use std::num::NonZeroU32;

use ebs_ec2::{CopyVolume, CreateVolume, DriverName, Ec2, Gib, Iops, Place, SnapshotId, Tags, VolumeId};

use super::adopt::ownership;
use super::iops_limit::{IopsQuery, Site};
use super::request::CreateRequest;
use super::{Creation, VolumeService, plan};
use crate::op_context::OpContext;
use crate::{CloudError, CloudErrorKind, Object, Result, Source, VolumeSpec};

/// Returns the request with the client token. For the same specification, returns the previous request unchanged.
pub(super) async fn create_request<E: Ec2>(creation: &Creation<'_, E>, token: String) -> Result<CreateRequest> {
    let &Creation { service, spec, .. } = creation;
    if let Some(request) = service.memory.cached_request(spec) {
        return Ok(request.with_token(token));
    }
    plan::check(spec)?;
    let request = match &spec.source {
        Source::Volume(source) => copy_volume_request(creation, source, token).await?,
        Source::Blank => CreateRequest::Create(create_volume_request(creation, None, token).await?),
        Source::Snapshot(id) => CreateRequest::Create(create_volume_request(creation, Some(id), token).await?),
    };
    service.memory.cache_request(spec, &request);
    Ok(request)
}

async fn create_volume_request<E: Ec2>(
    creation: &Creation<'_, E>,
    snapshot: Option<&SnapshotId>,
    token: String,
) -> Result<CreateVolume> {
    let &Creation { service, op, spec } = creation;
    let source = match snapshot {
        Some(id) if plan::size_depends_on_snapshot(spec) => Some(size_of(service, op, id).await?),
        _ => None,
    };
    let size = plan::size(&spec.capacity, &spec.volume_type, source.as_ref())?;
    let site = site(service, spec).await?;
    let iops = iops(service, spec, size, &site).await;
    Ok(CreateVolume {
        client_token: token,
        place: site.place,
        size,
        volume_type: spec.volume_type.clone(),
        iops,
        throughput: spec.throughput.map(NonZeroU32::get),
        encrypted: spec.encrypted || spec.kms_key_id.is_some(),
        kms_key_id: spec.kms_key_id.clone(),
        snapshot: snapshot.cloned(),
        initialization_rate: spec.initialization_rate.map(NonZeroU32::get),
        multi_attach: spec.multi_attach,
        outpost_arn: site.outpost_arn,
        tags: spec.tags.clone(),
        dry_run: false,
    })
}

async fn copy_volume_request<E: Ec2>(
    creation: &Creation<'_, E>,
    id: &VolumeId,
    token: String,
) -> Result<CreateRequest> {
    let &Creation { service, op, spec } = creation;
    let source = service.context.volume_for_sure(op, id).await.map_err(|e| match e.kind {
        CloudErrorKind::NotFound(object) => CloudError { cause: e.cause, ..CloudError::source_not_found(object) },
        _ => e,
    })?;
    plan::check_clone(spec, &source)?;
    let needs = plan::SourceSize { what: format!("volume {id}"), size: source.size };
    let size = plan::size(&spec.capacity, &spec.volume_type, Some(&needs))?;
    let site = source.zone.map(|zone| Site { place: Place::Zone(zone), outpost_arn: source.outpost_arn });
    let iops = match &site {
        Some(site) => iops(service, spec, size, site).await,
        None => {
            let limits = spec.volume_type.iops_limits().map(|limits| limits.with_max(None));
            spec.iops.resolve(size, limits, spec.raise_iops_to_min)
        }
    };
    let request = CopyVolume {
        client_token: token,
        source: id.clone(),
        size,
        volume_type: spec.volume_type.clone(),
        iops,
        throughput: spec.throughput.map(NonZeroU32::get),
        encrypted: !source.encrypted && (spec.encrypted || spec.kms_key_id.is_some()),
        kms_key_id: spec.kms_key_id.clone().filter(|_| !source.encrypted),
        multi_attach: spec.multi_attach,
        tags: spec.tags.clone(),
    };
    Ok(CreateRequest::Copy(request, site))
}

async fn site<E: Ec2>(service: &VolumeService<E>, spec: &VolumeSpec) -> Result<Site> {
    let mut sites = plan::named_sites(&spec.topology);
    if sites.is_empty() {
        sites = plan::open_sites(&spec.name, &service.context.zones.available().await?);
    }
    let without_room = service.memory.sites_without_room(&spec.name);
    plan::pick(&sites, &without_room).cloned().ok_or_else(|| {
        let message = format!("create volume {:?}: EC2 lists no availability zone in state available", spec.name);
        CloudErrorKind::InsufficientCapacity.error(message)
    })
}

/// Returns the IOPS to request, within the limits that EC2 has named for the site.
async fn iops<E: Ec2>(service: &VolumeService<E>, spec: &VolumeSpec, size: Gib, site: &Site) -> Option<Iops> {
    let asked = spec.iops.resolve(size, None, false)?;
    let query = IopsQuery { volume_type: &spec.volume_type, site, iops: spec.iops, size };
    let limits = service.iops_limits.limits(&query, probe_tags(service, &spec.tags)).await;
    let iops = spec.iops.resolve(size, limits, spec.raise_iops_to_min);
    if iops < Some(asked) {
        tracing::warn!(
            volume = %spec.name, asked, ?iops, ?limits,
            "requested IOPS exceed the limit of the volume type, lowering them"
        );
    }
    iops
}

/// Returns the tags by which IAM policies recognize the driver's calls.
pub(super) fn probe_tags<E: Ec2>(service: &VolumeService<E>, of: &Tags) -> Tags {
    let mut tags: Tags = ownership(&service.context.config.driver, of).map(|(k, v)| (k.clone(), v.clone())).collect();
    tags.insert(service.context.config.driver.managed_tag(), "true".to_owned());
    tags.remove(DriverName::VOLUME_NAME_TAG);
    tags
}

pub(super) async fn size_of<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    id: &SnapshotId,
) -> Result<plan::SourceSize> {
    match service.context.snapshot_for_sure(op, id).await? {
        Some(snapshot) => Ok(plan::SourceSize { what: format!("snapshot {id}"), size: snapshot.size }),
        None => Err(CloudError::source_not_found(Object::Snapshot(id.clone()))),
    }
}
