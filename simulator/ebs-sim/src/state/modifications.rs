//! ModifyVolume and the description of modifications. As in EC2, DescribeVolumes shows the new properties immediately;
//! only the modification's state shows whether the device has grown.

use std::time::{Duration, SystemTime};

use ebs_ec2::VolumeType;

use crate::api::{DescribeVolumesModifications, Fault, ModifyVolume, Reply, SimProperties};

use super::effects::Effect;
use super::faults::{self, incorrect_state, invalid_value};
use super::ids::Kind;
use super::listings::{Modified, Query};
use super::model::Sim;
use super::model::{Modification, ModificationPhase, Volume, VolumePhase};
use super::quotas::{check_modification_quota, check_volume_quotas};
use super::shape::{ShapeRequest, known_type};
use super::volumes::{check_type_in, named_volumes, volume_mut};

const MAX_PAGE: i64 = 500;
const WINDOW: Duration = Duration::from_hours(24);

pub(super) fn modify_volume(sim: &mut Sim, now: SystemTime, call: &ModifyVolume) -> Result<Reply, Fault> {
    let due = sim.times.due(now, sim.times.modify, Some(&call.volume_id));
    let per_day = sim.policy.modifications_per_day;
    volume_mut(sim, &call.volume_id)?;
    let volume = &sim.volumes[&call.volume_id];
    let target = target(volume, call, sim.policy.account.oddities.has_one_io2_sentence(&volume.zone))?;
    if target.volume_type != volume.volume_type
        && let Some(zone) = sim.account.zone_named(&volume.zone)
    {
        check_type_in(sim, &target.volume_type, zone)?;
    }
    check_rate(volume, now, per_day)?;
    check_volume_quotas(sim, &target, 1, Some(&call.volume_id))?;
    check_modification_quota(sim, &target)?;
    faults::unless_dry_run(call.dry_run)?;
    let volume = volume_mut(sim, &call.volume_id)?;
    let original = volume.properties();
    let grows = target.size_gib > original.size_gib;
    volume.size_gib = target.size_gib;
    volume.volume_type = target.volume_type.clone();
    volume.iops = target.iops;
    volume.throughput = target.throughput;
    volume.multi_attach = target.multi_attach;
    volume.modified_at.retain(|at| now < *at + WINDOW);
    volume.modified_at.push(now);
    let gib = target.size_gib;
    let phase = ModificationPhase::Modifying { due, grown: !grows };
    volume.modification = Some(Modification { phase, original, target, started: now });
    let reply = volume.describe_modification().expect("set just now");
    if grows {
        sim.emit(Effect::Grow { volume: call.volume_id.clone(), gib });
    }
    sim.touch();
    Ok(Reply::ModifyVolume(reply))
}

pub(super) fn describe_volumes_modifications(
    sim: &mut Sim,
    call: &DescribeVolumesModifications,
) -> Result<Reply, Fault> {
    let query = Query::of("DescribeVolumesModifications", &call.volume_ids, &call.filters)
        .page(call.max_results.map(|n| n.min(MAX_PAGE)), call.next_token.as_deref());
    query.check(Kind::Volume)?;
    for id in &call.volume_ids {
        if volume_mut(sim, id)?.modification.is_none() {
            return Err(Fault::new(
                "InvalidVolumeModification.NotFound",
                format!("Modification for volume '{id}' does not exist."),
            ));
        }
    }
    faults::unless_dry_run(call.dry_run)?;
    let named = named_volumes(sim, &query)?.into_iter();
    let chosen = named.filter(|v| query.wants(&v.id, &Modified(v))).filter_map(Volume::describe_modification);
    Ok(Reply::DescribeVolumesModifications(query.paged(chosen, |m| m.volume_id.clone())?))
}

fn target(volume: &Volume, call: &ModifyVolume, as_one_sentence: bool) -> Result<SimProperties, Fault> {
    if volume.phase != VolumePhase::Ready {
        return Err(incorrect_state(format!("The volume '{}' is '{}'.", volume.id, volume.state())));
    }
    let nothing = call.size.is_none()
        && call.volume_type.is_none()
        && call.iops.is_none()
        && call.throughput.is_none()
        && call.multi_attach_enabled.is_none();
    if nothing {
        return Err(invalid_value("Nothing to modify: give a size, type, iops, throughput or multi-attach."));
    }
    let volume_type = match call.volume_type.as_deref() {
        Some(name) => known_type(name)?,
        None => volume.volume_type.clone(),
    };
    if [&volume.volume_type, &volume_type].contains(&&VolumeType::Standard) {
        return Err(faults::unsupported("Volumes of type standard cannot be modified."));
    }
    if call.size.is_some_and(|size| size < i64::from(volume.size_gib)) {
        return Err(invalid_value("New size cannot be smaller than existing size"));
    }
    let same_type = volume_type == volume.volume_type;
    // A value that the client omits stays the same, unless it belongs to the old type. gp2 computes its IOPS from the
    // size.
    let kept_iops = volume.iops.filter(|_| same_type && volume.volume_type != VolumeType::Gp2);
    let kept_throughput = volume.throughput.filter(|_| same_type);
    let multi_attach = call.multi_attach_enabled.unwrap_or(volume.multi_attach);
    if volume.volume_type == VolumeType::Io1 && (volume.multi_attach || multi_attach) {
        return Err(faults::unsupported("io1 volumes that have Multi-Attach or would get it cannot be modified."));
    }
    if multi_attach != volume.multi_attach && !volume.attachments.is_empty() {
        return Err(incorrect_state("Multi-Attach can only be changed while the volume is not attached."));
    }
    ShapeRequest {
        size_gib: call.size.unwrap_or(i64::from(volume.size_gib)),
        volume_type,
        iops: call.iops.or(kept_iops.map(i64::from)),
        throughput: call.throughput.or(kept_throughput.map(i64::from)),
        multi_attach,
        as_one_sentence,
    }
    .fulfil()
}

fn check_rate(volume: &Volume, now: SystemTime, per_day: Option<u32>) -> Result<(), Fault> {
    if let Some(m) = &volume.modification {
        let state = match m.phase {
            ModificationPhase::Modifying { .. } => Some("MODIFYING"),
            ModificationPhase::Optimizing { .. } => Some("OPTIMIZING"),
            ModificationPhase::Completed { .. } | ModificationPhase::Failed { .. } => None,
        };
        if let Some(state) = state {
            return Err(Fault::new(
                "IncorrectModificationState",
                format!("Volume {} cannot be modified in modification state {state}", volume.id),
            ));
        }
    }
    let recent = volume.modified_at.iter().filter(|at| now < **at + WINDOW).count();
    if per_day.is_some_and(|most| recent >= usize::try_from(most).unwrap_or(usize::MAX)) {
        return Err(Fault::new(
            "VolumeModificationRateExceeded",
            format!(
                "You've reached the maximum modification rate per volume limit. A volume takes {recent} modifications in \
                 24 hours."
            ),
        ));
    }
    Ok(())
}
