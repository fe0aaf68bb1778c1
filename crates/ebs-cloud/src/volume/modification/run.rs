//! Modifies a volume and waits until EC2 shows the result.

use std::time::Duration;

use ebs_ec2::{
    Ec2, Ec2Error, ErrorClass, Gib, Iops, Limit, Modification, ModificationState, ModifyVolume, Place, Volume,
    VolumeId, VolumeType, Volumes,
};
use tokio::time::Instant;

use super::end::{is_made_already, latest_at_rest, modification_end, reached};
use super::plan;
use crate::error_map::map_error_about;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::retry::mutate;
use crate::volume::VolumeService;
use crate::volume::iops_limit::{IopsQuery, Site};
use crate::volume::new_request::probe_tags;
use crate::{CloudError, CloudErrorKind, ModifySpec, Object, Result};

/// The period in which EC2 limits the number of modifications of a volume.
const MODIFICATION_WINDOW: Duration = Duration::from_secs(24 * 3600);

pub(in crate::volume) async fn modify<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    id: &VolumeId,
    spec: &ModifySpec,
) -> Result<Volume> {
    let has_properties = spec.asks_for_properties();
    let volume = match has_properties {
        true => change_properties(service, op, id, spec).await?,
        false => service.context.volume_for_sure(op, id).await?,
    };
    match change_tags(service, op, id, spec).await {
        Ok(()) => Ok(volume),
        Err(CloudError { kind: CloudErrorKind::InvalidArgument, message, cause }) if has_properties => {
            let message = format!("{message}; the other properties were modified as requested");
            Err(CloudError { kind: CloudErrorKind::Internal, message, cause })
        }
        Err(error) => Err(error),
    }
}

/// Deletes tags and then sets tags, so a key in both lists gets its new value. Both calls are idempotent.
async fn change_tags<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    id: &VolumeId,
    spec: &ModifySpec,
) -> Result<()> {
    let gone: Vec<String> = spec.deleted_tags.iter().filter(|key| !spec.tags.contains_key(*key)).cloned().collect();
    if !(gone.is_empty() && spec.tags.is_empty()) {
        op.sleep_until(service.context.recent.leases.modifiers_sole_from()).await?;
    }
    if !gone.is_empty() {
        let ec2 = service.context.for_mutation(op);
        let answer = mutate(op, || ec2.delete_tags(id.as_str(), &gone)).await?;
        answer.map_err(|e| map_error_about(op, Object::Volume(id.clone()), e))?;
    }
    if !spec.tags.is_empty() {
        let ec2 = service.context.for_mutation(op);
        let answer = mutate(op, || ec2.create_tags(id.as_str(), &spec.tags)).await?;
        answer.map_err(|e| map_error_about(op, Object::Volume(id.clone()), e))?;
        service.memory.record_tags(id, &spec.tags);
    }
    Ok(())
}

/// Returns the instant from which a describe shows all earlier changes, including a previous leader's. An expansion
/// does not wait for a previous leader's changes, because EC2 never shrinks a volume.
fn settled_at<E: Ec2>(service: &VolumeService<E>, id: &VolumeId, spec: &ModifySpec) -> Instant {
    let (recent, write) = (&service.context.recent, Write::Modification(id.clone()));
    match spec.size {
        Some(size) if *spec == ModifySpec::size(size) => recent.settled_at(&write).max(recent.startup_grace_ends()),
        _ => recent.settled_at(&write).max(recent.leases.modifiers_sole_from()),
    }
}

async fn change_properties<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    id: &VolumeId,
    spec: &ModifySpec,
) -> Result<Volume> {
    let latest = latest_at_rest(service, op, id, settled_at(service, id, spec)).await?;
    let mut volume = service.context.volume_for_sure(op, id).await?;
    volume.tags.extend(service.memory.recent_tags(id));
    let before = latest.as_ref().and_then(|m| m.started);
    let mut request = request(service, spec, &volume).await;
    let answer = loop {
        if plan::is_nothing(&request) {
            return Ok(volume);
        }
        let ec2 = service.context.for_mutation(op);
        let answer = mutate(op, || ec2.modify_volume(&request)).await?;
        let Err(refusal) = &answer else { break answer };
        match with_fewer_iops(service, spec, &volume, &request, refusal).await {
            Some(fewer) => request = fewer,
            None => break answer,
        }
    };
    match answer {
        Ok(modification) => {
            service.context.recent.forget_refusal(id);
            service.context.recent.record_write(Write::Modification(id.clone()));
            if !is_past_modifying(&modification) {
                modification_end(service, op, &request, before).await?;
            }
        }
        Err(e) if e.class == ErrorClass::Ambiguous => {
            service.context.recent.record_write(Write::Modification(id.clone()));
            modification_end(service, op, &request, before).await?;
        }
        Err(e) => {
            let may_be_ours = matches!(e.class, ErrorClass::ModificationCooldown | ErrorClass::IncorrectState);
            if !(may_be_ours && is_made_already(service, op, &request, before).await?) {
                let impossible = plan::impossible_size(&request, &volume);
                return Err(modification_refused(op, id, latest.as_ref(), impossible, e));
            }
            modification_end(service, op, &request, before).await?;
        }
    }
    reached(service, op, &request).await
}

async fn request<E: Ec2>(service: &VolumeService<E>, spec: &ModifySpec, volume: &Volume) -> ModifyVolume {
    let requested = plan::requested_iops(spec, volume, &service.context.config.driver);
    let volume_type = spec.volume_type.as_ref().unwrap_or(&volume.volume_type);
    let iops = iops_within_limits(service, volume, volume_type, plan::size(spec, volume), requested).await;
    plan::request(spec, volume, requested, iops)
}

/// Returns the request with the maximum IOPS that EC2's refusal named, or without IOPS if only tags request them, or
/// `None` if EC2 refused for another reason.
async fn with_fewer_iops<E: Ec2>(
    service: &VolumeService<E>,
    spec: &ModifySpec,
    volume: &Volume,
    refused: &ModifyVolume,
    refusal: &Ec2Error,
) -> Option<ModifyVolume> {
    let asked = refused.iops?;
    let volume_type = refused.volume_type.as_ref().unwrap_or(&volume.volume_type);
    if let Some(site) = site_of(volume)
        && service.iops_limits.learn(volume_type, &site, asked, refusal)
    {
        let fewer = request(service, spec, volume).await;
        return (fewer.iops < Some(asked)).then_some(fewer);
    }
    let is_about_values = matches!(
        refusal.class,
        ErrorClass::InvalidParameter | ErrorClass::Unsupported | ErrorClass::LimitExceeded(Limit::Iops)
    );
    let is_extra = plan::requested_iops(spec, volume, &service.context.config.driver).only_raises;
    if !(is_about_values && is_extra && refused.volume_type.is_none()) {
        return None;
    }
    tracing::warn!(
        volume = %volume.id, asked, error = %refusal,
        "EC2 rejected the IOPS computed from the volume's tags, leaving IOPS unchanged"
    );
    Some(ModifyVolume { iops: None, ..refused.clone() })
}

/// Returns the requested IOPS within the limits of the new type and size. Logs when it lowers them.
async fn iops_within_limits<E: Ec2>(
    service: &VolumeService<E>,
    volume: &Volume,
    volume_type: &VolumeType,
    size: Gib,
    requested: plan::RequestedIops,
) -> Option<Iops> {
    let asked = requested.request.resolve(size, None, false)?;
    let limits = match site_of(volume) {
        Some(site) => {
            let query = IopsQuery { volume_type, site: &site, iops: requested.request, size };
            service.iops_limits.limits(&query, probe_tags(service, &volume.tags)).await
        }
        None => volume_type.iops_limits().map(|limits| limits.with_max(None)),
    };
    if requested.only_raises && limits.is_none() {
        // This volume type has no choice of IOPS.
        return None;
    }
    let iops = plan::iops_within(requested.request, size, limits, volume.iops);
    if iops < Some(asked) {
        tracing::warn!(
            volume = %volume.id, asked, ?iops, ?limits,
            "requested IOPS exceed the limit of the volume type, lowering them"
        );
    }
    iops
}
fn site_of(volume: &Volume) -> Option<Site> {
    let place = volume.zone.clone().map(Place::Zone).or_else(|| volume.zone_id.clone().map(Place::ZoneId))?;
    Some(Site { place, outpost_arn: volume.outpost_arn.clone() })
}

pub(in crate::volume) fn description(id: &VolumeId, spec: &ModifySpec) -> String {
    match spec.size {
        Some(size) if *spec == ModifySpec::size(size) => format!("expand volume {id} to {size}"),
        _ => format!("modify volume {id}"),
    }
}

fn is_past_modifying(modification: &Modification) -> bool {
    matches!(modification.state, ModificationState::Optimizing | ModificationState::Completed)
}

fn modification_refused(
    op: &OpContext<'_>,
    id: &VolumeId,
    latest: Option<&Modification>,
    impossible: Option<String>,
    error: Ec2Error,
) -> CloudError {
    match (error.class, impossible) {
        (ErrorClass::InvalidParameter | ErrorClass::Unsupported, Some(rule)) => {
            CloudErrorKind::OutOfRange.error(format!("{op}: {rule}")).caused_by(error)
        }
        (ErrorClass::ModificationCooldown | ErrorClass::IncorrectState, _) => {
            let message = format!("{op}: {}", when_possible(latest));
            CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
        }
        _ => map_error_about(op, Object::Volume(id.clone()), error),
    }
}

/// Returns EC2's rule, and the time of the next possible modification if the latest modification shows it.
fn when_possible(latest: Option<&Modification>) -> String {
    let rule =
        "a volume can be modified at most 4 times in 24 h, and not while an earlier modification is being optimized";
    let Some(latest) = latest else { return rule.to_owned() };
    let since =
        latest.started.map(|t| format!("the latest modification started at {}", humantime::format_rfc3339_seconds(t)));
    let again = latest.started.map(|t| humantime::format_rfc3339_seconds(t + MODIFICATION_WINDOW));
    match (&latest.state, since, again) {
        (ModificationState::Optimizing, Some(since), _) => {
            format!("{rule}; {since} and is still being optimized; try again when it is completed")
        }
        (_, Some(since), Some(again)) => {
            format!("{rule}; {since}; the next modification is possible at {again} at the latest")
        }
        _ => rule.to_owned(),
    }
}
