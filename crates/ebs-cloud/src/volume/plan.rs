//! The pure part of creating a volume: what follows from the request alone.

use ebs_ec2::{Place, Volume};
use ebs_types::{Gib, VolumeType, ZoneName, may_be_one_kms_key};
use sha2::{Digest, Sha256};

use super::iops_limit::Site;
use crate::{CapacityRequest, CloudError, CloudErrorKind, Source, Term, Topology, VolumeSpec};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceSize {
    /// The source, for messages.
    pub(crate) what: String,
    /// The smallest volume that holds it.
    pub(crate) size: Gib,
}

/// The size to ask EC2 for.
///
/// A required size is taken as it is, EC2 is the judge of it; left open, it is the fallback, within what source, type
/// and limit allow.
pub(crate) fn size(
    capacity: &CapacityRequest,
    volume_type: &VolumeType,
    source: Option<&SourceSize>,
) -> Result<Gib, CloudError> {
    let out_of_range = |message| Err(CloudErrorKind::OutOfRange.error(message));
    let required = capacity.required;
    let limit = capacity.limit.unwrap_or(Gib(u32::MAX));
    if let Some(required) = required.filter(|r| *r > limit) {
        return out_of_range(format!("a volume of at least {required} and at most {limit} cannot be"));
    }
    if let Some(source) = source {
        let most = required.unwrap_or(limit);
        if most < source.size {
            let SourceSize { what, size } = source;
            return out_of_range(format!("{what} needs {size}, the request allows {most}: ask for at least {size}"));
        }
    }
    if let Some(required) = required {
        return Ok(required);
    }
    let type_min = volume_type.size_range().map_or(Gib(1), |(min, _)| min);
    if limit < type_min {
        return out_of_range(format!("a {volume_type} volume has at least {type_min}, the limit is {limit}"));
    }
    let floor = source.map_or(type_min, |s| s.size.max(type_min));
    Ok(capacity.fallback.max(floor).min(limit))
}

/// The sites that the request names, better ones first; empty when it leaves the place open. A term gives all of its
/// site: zone, or zone id where it has no zone, and Outpost.
pub(crate) fn named_sites(topology: &Topology) -> Vec<Site> {
    let mut sites = Vec::new();
    for term in topology.preferred.iter().chain(&topology.requisite) {
        let place = match (&term.zone, &term.zone_id) {
            (Some(zone), _) => Place::Zone(zone.clone()),
            (None, Some(id)) => Place::ZoneId(id.clone()),
            (None, None) => continue,
        };
        let site = Site { place, outpost_arn: term.outpost_arn.clone() };
        if !sites.contains(&site) {
            sites.push(site);
        }
    }
    sites
}

/// All zones as sites, in the order that the volume's name gives them.
pub(crate) fn open_sites(name: &str, available: &[ZoneName]) -> Vec<Site> {
    let zones = in_order_of(name, available).into_iter();
    zones.map(|zone| Site { place: Place::Zone(zone), outpost_arn: None }).collect()
}

/// All zones, beginning with the one that the name's hash chooses: volumes spread, and a retry begins alike.
fn in_order_of(name: &str, zones: &[ZoneName]) -> Vec<ZoneName> {
    if zones.is_empty() {
        return Vec::new();
    }
    let digest = Sha256::digest(name.as_bytes());
    let sum = digest.iter().fold(0_usize, |sum, byte| sum.wrapping_mul(31).wrapping_add(usize::from(*byte)));
    let mut order = zones.to_vec();
    order.rotate_left(sum % zones.len());
    order
}

/// The first site that had room when last asked; when none had, the first again.
pub(crate) fn pick<'a>(sites: &'a [Site], without_room: &[Site]) -> Option<&'a Site> {
    sites.iter().find(|s| !without_room.contains(s)).or_else(|| sites.first())
}

/// True when the request allows a volume to be where this one is.
pub(crate) fn allows_place_of(topology: &Topology, volume: &Volume) -> bool {
    let terms = if topology.requisite.is_empty() { &topology.preferred } else { &topology.requisite };
    let named: Vec<&Term> = terms.iter().filter(|t| t.zone.is_some() || t.zone_id.is_some()).collect();
    named.is_empty() || named.into_iter().any(|term| is_at(term, volume))
}

fn is_at(term: &Term, volume: &Volume) -> bool {
    let is_in_zone = match (&term.zone, &term.zone_id) {
        (Some(zone), _) => volume.zone.as_ref() == Some(zone),
        (None, id) => id.is_some() && volume.zone_id == *id,
    };
    is_in_zone && (term.outpost_arn.is_none() || term.outpost_arn == volume.outpost_arn)
}

pub(crate) fn asks_for_outpost(topology: &Topology) -> bool {
    topology.preferred.iter().chain(&topology.requisite).any(|term| term.outpost_arn.is_some())
}

/// True when a source volume is where its clone may be: only what is required counts, not what is preferred.
pub(crate) fn allows_clone_of(topology: &Topology, source: &Volume) -> bool {
    let required = Topology { preferred: Vec::new(), requisite: topology.requisite.clone() };
    allows_place_of(&required, source)
}

/// What no EC2 would accept, found before anything is asked.
pub(crate) fn check(spec: &VolumeSpec) -> Result<(), CloudError> {
    if spec.multi_attach && spec.volume_type != VolumeType::Io2 {
        let message = format!(
            "a volume for several nodes must be of type io2, not {}: set the type or another access mode",
            spec.volume_type
        );
        return Err(CloudErrorKind::InvalidArgument.error(message));
    }
    Ok(())
}

/// The clone of an encrypted volume has its source's key: refuse another one, and a place where the clone cannot be.
pub(crate) fn check_clone(spec: &VolumeSpec, source: &Volume) -> Result<(), CloudError> {
    let invalid = |message| Err(CloudErrorKind::InvalidArgument.error(message));
    if let Some(key) = &spec.kms_key_id
        && let Some(found) = source.kms_key_id.as_deref().filter(|_| source.encrypted)
        && !may_be_one_kms_key(key, found)
    {
        return invalid(format!(
            "the clone of {} has the key of its source, {found}, and not {key}: remove kmsKeyId, or restore a snapshot with it",
            source.id
        ));
    }
    if !allows_clone_of(&spec.topology, source) {
        let zone = source.zone.as_ref().map_or("an unknown zone", ZoneName::as_str);
        let outpost = source.outpost_arn.as_ref().map_or_else(String::new, |arn| format!(" on {arn}"));
        let message =
            format!("a clone is where its source {} is: in {zone}{outpost}, which the request excludes", source.id);
        return Err(CloudErrorKind::InsufficientCapacity.error(message));
    }
    Ok(())
}

/// True for the sources whose size must be known before the volume's own can be chosen.
pub(crate) fn size_depends_on_snapshot(spec: &VolumeSpec) -> bool {
    matches!(spec.source, Source::Snapshot(_)) && spec.capacity.required.is_none()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;
