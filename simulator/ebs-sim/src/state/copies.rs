//! CopyVolumes: a copy of a volume in its own zone, with the data at the time of the call.

use std::time::SystemTime;

use crate::api::{CopyVolumes, Fault, Reply};
use crate::config::ZoneConfig;

use super::encryption::encryption_of_copy;
use super::faults;
use super::ids::Kind;
use super::initialization::filled_from_volume;
use super::model::Sim;
use super::model::{Volume, VolumePhase};
use super::quotas::{check_copy_quota, check_volume_quotas};
use super::shape::{ShapeRequest, known_type};
use super::tags::{in_order, tags_for};
use super::tokens::Use;
use super::tokens::{remember_token, use_token};
use super::volumes::new_volume;
use super::volumes::{add_volume, check_type_in, volume_mut};

pub(super) fn copy_volumes(sim: &mut Sim, now: SystemTime, mut call: CopyVolumes) -> Result<Reply, Fault> {
    let token = call.client_token.take();
    in_order(&mut call.tag_specifications);
    let usage = use_token(sim, now, token.as_deref(), "CopyVolumes", &call)?;
    if let Use::Repeat(volume) = usage {
        return faults::unless_dry_run(call.dry_run).map(|()| Reply::CopyVolumes(vec![*volume]));
    }
    let copy = planned_copy(sim, now, &call)?;
    check_volume_quotas(sim, &copy.properties(), 1, None)?;
    check_copy_quota(sim)?;
    faults::unless_dry_run(call.dry_run)?;
    let copy = add_volume(sim, copy);
    remember_token(sim, token, usage, &copy.id);
    Ok(Reply::CopyVolumes(vec![copy]))
}

fn planned_copy(sim: &mut Sim, now: SystemTime, call: &CopyVolumes) -> Result<Volume, Fault> {
    let due = sim.times.due(now, sim.times.create, call.client_token.as_deref());
    volume_mut(sim, &call.source_volume_id)?;
    let source = &sim.volumes[&call.source_volume_id];
    if source.phase != VolumePhase::Ready {
        return Err(faults::incorrect_state(format!("The volume '{}' is '{}'.", source.id, source.state())));
    }
    let size_gib = call.size.unwrap_or(i64::from(source.size_gib));
    if size_gib < i64::from(source.size_gib) {
        return Err(faults::invalid_value(format!(
            "A copy of {size_gib} GiB is smaller than its source: expect size >= {} GiB.",
            source.size_gib
        )));
    }
    let volume_type = match call.volume_type.as_deref().filter(|t| !t.is_empty()) {
        Some(name) => known_type(name)?,
        None => source.volume_type.clone(),
    };
    if let Some(zone) = sim.account.zone_named(&source.zone) {
        check_type_in(sim, &volume_type, zone)?;
    }
    let multi_attach = call.multi_attach_enabled.unwrap_or(false);
    let request = ShapeRequest {
        size_gib,
        volume_type,
        iops: call.iops,
        throughput: call.throughput,
        multi_attach,
        as_one_sentence: sim.policy.account.oddities.has_one_io2_sentence(&source.zone),
    };
    let zone = ZoneConfig { name: source.zone.clone(), id: source.zone_id.clone(), zone_type: String::new() };
    if source.outpost_arn.is_some() {
        return Err(faults::unsupported("Volumes on an Outpost cannot be copied."));
    }
    let encryption = encryption_of_copy(sim, call, source.kms_key_id.as_deref())?;
    Ok(Volume {
        tags: tags_for(&call.tag_specifications, Kind::Volume)?,
        encrypted: encryption.key.is_some(),
        kms_key_id: encryption.key,
        vanishes: !encryption.usable,
        filling: Some(filled_from_volume(sim, now, source.size_gib)),
        source_volume_id: Some(source.id.clone()),
        ..new_volume(request.fulfil()?, &zone, now, due)
    })
}
