//! The pure part of creating a volume, which needs no EC2 calls.

use ebs_ec2::{Gib, Place, Volume, VolumeType, ZoneName, may_be_one_kms_key};
use sha2::{Digest, Sha256};

use super::iops_limit::Site;
use crate::{CapacityRequest, CloudErrorKind, Result, Source, Term, Topology, VolumeSpec};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SourceSize {
    pub(crate) what: String,
    /// The size of the smallest volume that can hold the source.
    pub(crate) size: Gib,
}

/// Returns the size to request from EC2: the required size unchanged, or else the fallback, raised to the minimum size
/// for the source and the type, and capped at the limit.
pub(crate) fn size(capacity: &CapacityRequest, volume_type: &VolumeType, source: Option<&SourceSize>) -> Result<Gib> {
    let out_of_range = |message| Err(CloudErrorKind::OutOfRange.error(message));
    let required = capacity.required;
    let limit = capacity.limit.unwrap_or(Gib(u32::MAX));
    if let Some(required) = required.filter(|r| *r > limit) {
        return out_of_range(format!("invalid capacity range: required {required} exceeds limit {limit}"));
    }
    let most = required.unwrap_or(limit);
    if let Some(SourceSize { what, size }) = source.filter(|source| most < source.size) {
        return out_of_range(format!(
            "{what} needs {size}, but the request allows only {most}; request at least {size}"
        ));
    }
    if let Some(required) = required {
        return Ok(required);
    }
    let type_min = volume_type.size_range().map_or(Gib(1), |(min, _)| min);
    if limit < type_min {
        return out_of_range(format!(
            "invalid capacity range: a {volume_type} volume has at least {type_min}, but the limit is {limit}"
        ));
    }
    let floor = source.map_or(type_min, |s| s.size.max(type_min));
    Ok(capacity.fallback.max(floor).min(limit))
}

/// Returns the sites that the request names, preferred ones first. Each comes from a single term.
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

pub(crate) fn open_sites(name: &str, available: &[ZoneName]) -> Vec<Site> {
    let zones = in_order_of(name, available).into_iter();
    zones.map(|zone| Site { place: Place::Zone(zone), outpost_arn: None }).collect()
}

/// Returns all zones, beginning with the one that the name's hash selects, so that volumes spread over the zones.
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

/// Returns the first site that is not known to lack capacity. If all lack capacity, returns the first site.
pub(crate) fn pick<'a>(sites: &'a [Site], without_room: &[Site]) -> Option<&'a Site> {
    sites.iter().find(|s| !without_room.contains(s)).or_else(|| sites.first())
}

/// Returns true if the request allows a volume in the zone and on the Outpost of this volume.
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

/// Returns true if the requisite topology allows the clone in the zone of its source.
pub(crate) fn allows_clone_of(topology: &Topology, source: &Volume) -> bool {
    let required = Topology { preferred: Vec::new(), requisite: topology.requisite.clone() };
    allows_place_of(&required, source)
}

/// Rejects a request that EC2 would always refuse, before any call.
pub(crate) fn check(spec: &VolumeSpec) -> Result<()> {
    if spec.multi_attach && spec.volume_type != VolumeType::Io2 {
        let message = format!(
            "a volume for several nodes must be of type io2, not {}; set the type or another access mode",
            spec.volume_type
        );
        return Err(CloudErrorKind::InvalidArgument.error(message));
    }
    Ok(())
}

/// Rejects a clone in another zone or with another key, because a clone gets both from its source.
pub(crate) fn check_clone(spec: &VolumeSpec, source: &Volume) -> Result<()> {
    let invalid = |message| Err(CloudErrorKind::InvalidArgument.error(message));
    if let Some(key) = &spec.kms_key_id
        && let Some(found) = source.kms_key_id.as_deref().filter(|_| source.encrypted)
        && !may_be_one_kms_key(key, found)
    {
        return invalid(format!(
            "the clone of {} inherits the key {found} of its source, not {key}; remove kmsKeyId, or restore a snapshot \
             with {key}",
            source.id
        ));
    }
    if !allows_clone_of(&spec.topology, source) {
        let zone = source.zone.as_ref().map_or("an unknown zone", ZoneName::as_str);
        let outpost = source.outpost_arn.as_ref().map_or_else(String::new, |arn| format!(" on {arn}"));
        let message = format!(
            "a clone must be where its source {} is, in {zone}{outpost}, but the request excludes that place",
            source.id
        );
        return Err(CloudErrorKind::InsufficientCapacity.error(message));
    }
    Ok(())
}

pub(crate) fn size_depends_on_snapshot(spec: &VolumeSpec) -> bool {
    matches!(spec.source, Source::Snapshot(_)) && spec.capacity.required.is_none()
}

#[cfg(test)]
#[path = "plan_tests.rs"]
pub(crate) mod tests;
