//! CreateVolume, DeleteVolume and the descriptions of volumes.

use std::collections::BTreeSet;
use std::time::SystemTime;

use ebs_ec2::VolumeType;

use crate::api::{CreateVolume, DeleteVolume, DescribeVolumes, Fault, Page, Reply, SimProperties};
use crate::config::ZoneConfig;

use super::effects::{Effect, Source};
use super::encryption::encryption_of;
use super::faults::{self, invalid_combination, invalid_value};
use super::ids::Kind;
use super::initialization::filled_from_snapshot;
use super::listings::Query;
use super::model::Sim;
use super::model::{SnapshotPhase, Volume, VolumePhase};
use super::outposts::outpost_of_volume;
use super::quotas::check_volume_quotas;
use super::shape::{ShapeRequest, known_type};
use super::tags::{in_order, tags_for};
use super::tokens::Use;
use super::tokens::{remember_token, use_token};

/// Range of requested initialization rates in MiB/s.
const INITIALIZATION_RATES: std::ops::RangeInclusive<i64> = 100..=300;

pub(super) fn create_volume(sim: &mut Sim, now: SystemTime, mut call: CreateVolume) -> Result<Reply, Fault> {
    let token = call.client_token.take();
    in_order(&mut call.tag_specifications);
    let usage = use_token(sim, now, token.as_deref(), "CreateVolume", &call)?;
    if let Use::Repeat(volume) = usage {
        return faults::unless_dry_run(call.dry_run).map(|()| Reply::CreateVolume(*volume));
    }
    let volume = planned_volume(sim, now, &call)?;
    check_volume_quotas(sim, &volume.properties(), 1, None)?;
    faults::unless_dry_run(call.dry_run)?;
    let volume = add_volume(sim, volume);
    remember_token(sim, token, usage, &volume.id);
    Ok(Reply::CreateVolume(volume))
}

/// Adds an accepted volume: assigns its id, and notifies the data plane.
pub(super) fn add_volume(sim: &mut Sim, mut volume: Volume) -> crate::api::SimVolume {
    volume.id = sim.ids.new_id(Kind::Volume);
    let (id, gib) = (volume.id.clone(), volume.size_gib);
    sim.emit(match volume.source_volume_id.clone() {
        Some(source) => Effect::CopyVolume { source, volume: id, gib },
        None => {
            let source = volume.snapshot_id.clone().map_or(Source::Blank, Source::Snapshot);
            Effect::CreateBacking { volume: id, gib, source }
        }
    });
    let described = volume.describe();
    sim.volumes.insert(volume.id.clone(), volume);
    sim.touch();
    described
}

/// Makes all checks that EC2 makes before it accepts a volume, and returns the volume.
pub(super) fn planned_volume(sim: &Sim, now: SystemTime, call: &CreateVolume) -> Result<Volume, Fault> {
    let zone = zone_of(sim, call)?.clone();
    let tags = tags_for(&call.tag_specifications, Kind::Volume)?;
    let properties = wanted_properties(sim, call, &zone.name)?;
    check_type_in(sim, &properties.volume_type, &zone)?;
    let outpost_arn = outpost_of_volume(sim, call)?;
    let encryption = encryption_of(sim, call)?;
    let rate = initialization_rate(call)?;
    let snapshot = call.snapshot_id.as_ref().and_then(|id| sim.snapshots.get(id));
    Ok(Volume {
        tags,
        encrypted: encryption.key.is_some(),
        kms_key_id: encryption.key,
        vanishes: !encryption.usable,
        snapshot_id: snapshot.map(|s| s.id.clone()),
        fast_restored: snapshot.is_some_and(|s| s.is_fast_in(&zone.name, now)),
        filling: snapshot.map(|s| filled_from_snapshot(sim, now, s, &zone.name, rate)),
        initialization_rate: rate,
        outpost_arn,
        ..new_volume(properties, &zone, now, sim.times.due(now, sim.times.create, call.client_token.as_deref()))
    })
}

fn zone_of<'a>(sim: &'a Sim, call: &CreateVolume) -> Result<&'a ZoneConfig, Fault> {
    let name = call.availability_zone.as_deref().filter(|z| !z.is_empty());
    let id = call.availability_zone_id.as_deref().filter(|z| !z.is_empty());
    let (found, given) = match (name, id) {
        (Some(name), None) => (sim.account.zone_named(name), name),
        (None, Some(id)) => (sim.account.zone_with_id(id), id),
        (None, None) => return Err(faults::missing("zone")),
        (Some(_), Some(_)) => {
            return Err(invalid_combination("Give AvailabilityZone or AvailabilityZoneId, not both."));
        }
    };
    found.ok_or_else(|| Fault::new("InvalidZone.NotFound", format!("The zone '{given}' does not exist.")))
}

pub(super) fn check_type_in(sim: &Sim, volume_type: &VolumeType, zone: &ZoneConfig) -> Result<(), Fault> {
    let missing = sim.policy.account.missing_volume_types.get(&zone.name);
    let lacks = zone.zone_type != "availability-zone" && matches!(volume_type, VolumeType::Io2 | VolumeType::Standard);
    if lacks || missing.is_some_and(|types| types.iter().any(|name| name == volume_type.as_str())) {
        return Err(Fault::new(
            "VolumeTypeNotAvailableInZone",
            format!("The volume type '{volume_type}' is not supported in the zone '{}'.", zone.name),
        ));
    }
    Ok(())
}

fn wanted_properties(sim: &Sim, call: &CreateVolume, zone: &str) -> Result<SimProperties, Fault> {
    let volume_type = known_type(call.volume_type.as_deref().filter(|t| !t.is_empty()).unwrap_or("gp2"))?;
    let least = match call.snapshot_id.as_deref().filter(|s| !s.is_empty()) {
        Some(id) => Some(usable_snapshot_size(sim, id)?),
        None => None,
    };
    let size_gib = call.size.or(least.map(i64::from)).ok_or_else(|| faults::missing("size/snapshot"))?;
    if let Some(least) = least.filter(|least| size_gib < i64::from(*least)) {
        let id = call.snapshot_id.as_deref().unwrap_or_default();
        // EC2's text has two spaces here, as does its text for RunInstances.
        return Err(invalid_value(format!(
            "Volume of size {size_gib}GB is smaller than  snapshot '{id}', expect size >= {least}GB"
        )));
    }
    let multi_attach = call.multi_attach_enabled.unwrap_or(false);
    let as_one_sentence = sim.policy.account.oddities.has_one_io2_sentence(zone);
    let (iops, throughput) = (call.iops, call.throughput);
    ShapeRequest { size_gib, volume_type, iops, throughput, multi_attach, as_one_sentence }.fulfil()
}

fn usable_snapshot_size(sim: &Sim, id: &str) -> Result<u32, Fault> {
    Kind::Snapshot.check(id)?;
    let missing = || Fault::new("InvalidSnapshot.NotFound", "Snapshot does not exist");
    let snapshot = sim.snapshots.get(id).ok_or_else(missing)?;
    match snapshot.phase {
        SnapshotPhase::Completed { .. } => Ok(snapshot.size_gib),
        SnapshotPhase::Pending { .. } | SnapshotPhase::Error { .. } => {
            Err(faults::incorrect_state(format!("Snapshot is in invalid state - {}", snapshot.state())))
        }
    }
}

pub(super) fn delete_volume(sim: &mut Sim, now: SystemTime, call: &DeleteVolume) -> Result<Reply, Fault> {
    let gone_at = sim.times.due(now, sim.times.delete, Some(&call.volume_id));
    let volume = volume_mut(sim, &call.volume_id)?;
    match volume.phase {
        VolumePhase::Deleting { .. } => return Err(faults::no_such_volume(&call.volume_id)),
        VolumePhase::Creating { .. } => {
            return Err(faults::incorrect_state(format!("The volume '{}' is 'creating'.", volume.id)));
        }
        VolumePhase::Ready | VolumePhase::Error => {}
    }
    if let Some(attachment) = volume.attachments.first() {
        return Err(Fault::new(
            "VolumeInUse",
            format!("Volume {} is currently attached to {}", volume.id, attachment.instance_id),
        ));
    }
    faults::unless_dry_run(call.dry_run)?;
    volume.phase = VolumePhase::Deleting { due: gone_at };
    sim.touch();
    Ok(Reply::DeleteVolume)
}

pub(super) fn volume_mut<'a>(sim: &'a mut Sim, id: &str) -> Result<&'a mut Volume, Fault> {
    if id.is_empty() {
        return Err(faults::missing("VolumeId"));
    }
    Kind::Volume.check(id)?;
    sim.volumes.get_mut(id).ok_or_else(|| faults::no_such_volume(id))
}

pub(super) fn describe_volumes(sim: &Sim, call: &DescribeVolumes) -> Result<Reply, Fault> {
    let query = Query::of("DescribeVolumes", &call.volume_ids, &call.filters)
        .page(call.max_results, call.next_token.as_deref())
        .with_tokens_after_full_pages(sim.policy.account.oddities.tokens_after_full_pages);
    let chosen = chosen_volumes(sim, &query)?;
    faults::unless_dry_run(call.dry_run)?;
    // Describe only the volumes of the page.
    let page = query.paged(chosen.into_iter(), |v| v.id.clone())?;
    let items = page.items.into_iter().map(Volume::describe).collect();
    Ok(Reply::DescribeVolumes(Page { items, next: page.next }))
}

/// Returns the volumes that match a query. A missing id is an error; a filter value without a match is not.
pub(super) fn chosen_volumes<'a>(sim: &'a Sim, query: &Query<'_>) -> Result<Vec<&'a Volume>, Fault> {
    query.check(Kind::Volume)?;
    let named = named_volumes(sim, query)?;
    Ok(named.into_iter().filter(|v| query.wants(&v.id, *v)).collect())
}

/// Returns the volumes whose ids a query or its filter contains, or all volumes if it contains no ids.
pub(super) fn named_volumes<'a>(sim: &'a Sim, query: &Query<'_>) -> Result<Vec<&'a Volume>, Fault> {
    let missing: Vec<&str> = query.ids.iter().filter(|id| !sim.volumes.contains_key(id)).map(String::as_str).collect();
    match missing.as_slice() {
        [] => {}
        [one] => return Err(faults::no_such_volume(one)),
        many => {
            return Err(Fault::new(
                "InvalidVolume.NotFound",
                format!("The volumes '{}' do not exist.", many.join(", ")),
            ));
        }
    }
    if query.ids.is_empty() {
        return Ok(match query.filtered_ids("volume-id") {
            Some(ids) => ids.into_iter().filter_map(|id| sim.volumes.get(id)).collect(),
            None => sim.volumes.values().collect(),
        });
    }
    Ok(query.ids.iter().collect::<BTreeSet<_>>().into_iter().filter_map(|id| sim.volumes.get(id)).collect())
}

fn initialization_rate(call: &CreateVolume) -> Result<Option<u32>, Fault> {
    let Some(rate) = call.volume_initialization_rate else { return Ok(None) };
    if call.snapshot_id.is_none() {
        return Err(invalid_combination("VolumeInitializationRate needs a SnapshotId."));
    }
    if !INITIALIZATION_RATES.contains(&rate) {
        return Err(invalid_value(format!("Volume initialization rate of {rate} MiB/s is not within 100 to 300.")));
    }
    Ok(u32::try_from(rate).ok())
}

pub(super) fn new_volume(properties: SimProperties, zone: &ZoneConfig, now: SystemTime, due: SystemTime) -> Volume {
    Volume {
        // The id is assigned when EC2 accepts the volume, because a rejected call must not consume a random number.
        id: String::new(),
        phase: VolumePhase::Creating { due, data_ready: false },
        size_gib: properties.size_gib,
        volume_type: properties.volume_type,
        iops: properties.iops,
        throughput: properties.throughput,
        multi_attach: properties.multi_attach,
        zone: zone.name.clone(),
        zone_id: zone.id.clone(),
        encrypted: false,
        kms_key_id: None,
        vanishes: false,
        snapshot_id: None,
        source_volume_id: None,
        initialization_rate: None,
        fast_restored: false,
        created: now,
        tags: ebs_ec2::Tags::new(),
        attachments: Vec::new(),
        modification: None,
        modified_at: Vec::new(),
        last_snapshot: None,
        impaired: false,
        outpost_arn: None,
        filling: None,
    }
}
