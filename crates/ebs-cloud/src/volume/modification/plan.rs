//! Computes the request to EC2 and checks the result. The code is pure.

use std::num::NonZeroU32;
use std::time::SystemTime;

use ebs_ec2::{DriverName, Gib, Iops, IopsLimits, IopsRequest, Modification, ModifyVolume, Volume};

use crate::ModifySpec;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct RequestedIops {
    pub(super) request: IopsRequest,
    /// True for IOPS from the volume's tags, which never lower the volume's IOPS.
    pub(super) only_raises: bool,
}

/// Returns the requested IOPS, or else those from the volume's tags if the request or the tags allow it. Ignores
/// invalid tags, so that they do not block an expansion.
pub(super) fn requested_iops(spec: &ModifySpec, volume: &Volume, driver: &DriverName) -> RequestedIops {
    if spec.iops != IopsRequest::Default {
        return RequestedIops { request: spec.iops, only_raises: false };
    }
    let allowed = spec.auto_iops.unwrap_or_else(|| allowed_by_tag(volume, driver));
    let request = match ratio_of_tag(volume, driver) {
        Some(ratio) if allowed => IopsRequest::PerGib(ratio),
        _ => IopsRequest::Default,
    };
    RequestedIops { request, only_raises: true }
}

fn ratio_of_tag(volume: &Volume, driver: &DriverName) -> Option<NonZeroU32> {
    let tag = volume.tags.get(&driver.iops_per_gib_tag())?;
    let ratio = tag.parse::<i32>().ok().and_then(|ratio| Iops::try_from(ratio).ok());
    if ratio.is_none() {
        tracing::warn!(volume = %volume.id, %tag, "ignoring invalid IOPS-per-GiB tag, leaving IOPS unchanged");
    }
    ratio.and_then(NonZeroU32::new)
}

fn allowed_by_tag(volume: &Volume, driver: &DriverName) -> bool {
    let name = driver.auto_iops_tag();
    match volume.tags.get(&name).map(String::as_str) {
        None | Some("0" | "f" | "F" | "false" | "FALSE" | "False") => false,
        Some("1" | "t" | "T" | "true" | "TRUE" | "True") => true,
        Some(value) => {
            tracing::warn!(volume = %volume.id, tag = name, value, "tag has an invalid value, leaving IOPS unchanged");
            false
        }
    }
}

/// Returns the requested IOPS within the limits, but does not lower them below `now`, the volume's current IOPS. EC2
/// refuses these if the modified volume does not support so many.
pub(super) fn iops_within(
    request: IopsRequest,
    size: Gib,
    limits: Option<IopsLimits>,
    now: Option<Iops>,
) -> Option<Iops> {
    let asked = request.resolve(size, None, false)?;
    request.resolve(size, limits, true).max(now.map(|now| now.min(asked)))
}

pub(super) fn size(spec: &ModifySpec, volume: &Volume) -> Gib {
    spec.size.map_or(volume.size, |size| size.max(volume.size))
}

/// Returns the properties that differ from the volume's, or all requested ones if the type changes.
pub(super) fn request(
    spec: &ModifySpec,
    volume: &Volume,
    requested: RequestedIops,
    iops: Option<Iops>,
) -> ModifyVolume {
    let volume_type = spec.volume_type.clone().filter(|wanted| *wanted != volume.volume_type);
    // EC2 keeps omitted properties only if the type stays the same.
    let is_retyped = volume_type.is_some();
    let iops = iops.filter(|wanted| match volume.iops {
        _ if is_retyped => true,
        Some(now) if requested.only_raises => *wanted > now,
        now => now != Some(*wanted),
    });
    let throughput = spec.throughput.map(NonZeroU32::get);
    ModifyVolume {
        volume: volume.id.clone(),
        size: spec.size.filter(|wanted| *wanted > volume.size),
        volume_type,
        iops,
        throughput: throughput.filter(|wanted| is_retyped || volume.throughput != Some(*wanted)),
    }
}

/// Returns the message for a size outside the range that this version has for the type. EC2 still decides.
pub(super) fn impossible_size(request: &ModifyVolume, volume: &Volume) -> Option<String> {
    let (size, volume_type) = (request.size?, request.volume_type.as_ref().unwrap_or(&volume.volume_type));
    let (min, max) = volume_type.size_range()?;
    let is_impossible = size < min || size > max;
    is_impossible
        .then(|| format!("required_bytes rounds up to {size}, which is not a valid size of a {volume_type} volume"))
}

pub(super) fn is_nothing(request: &ModifyVolume) -> bool {
    let ModifyVolume { volume: _, size, volume_type, iops, throughput } = request;
    size.is_none() && volume_type.is_none() && iops.is_none() && throughput.is_none()
}

pub(super) fn is_met(request: &ModifyVolume, volume: &Volume) -> bool {
    request.size.is_none_or(|size| volume.size >= size)
        && request.volume_type.as_ref().is_none_or(|wanted| *wanted == volume.volume_type)
        && request.iops.is_none_or(|iops| volume.iops == Some(iops))
        && request.throughput.is_none_or(|throughput| volume.throughput == Some(throughput))
}

pub(super) fn leads_to(request: &ModifyVolume, modification: &Modification) -> bool {
    request.size.is_none_or(|size| modification.target_size >= Some(size))
        && request.volume_type.as_ref().is_none_or(|wanted| modification.target_type.as_ref() == Some(wanted))
        && request.iops.is_none_or(|iops| modification.target_iops == Some(iops))
        && request.throughput.is_none_or(|throughput| modification.target_throughput == Some(throughput))
}

/// Returns true if the modification began after the previous one, which a stale describe may still show.
pub(super) fn is_after(modification: &Modification, latest_before: Option<SystemTime>) -> bool {
    match (modification.started, latest_before) {
        (Some(started), Some(before)) => started > before,
        _ => true,
    }
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
