//! Injects the effects of fault rules into calls and attachments. The effects also occur in EC2.

use std::time::SystemTime;

use crate::api::{Call, Fault, Reply};
use crate::faults::FaultInjection;

use super::dispatch::carry_out;
use super::effects::Effect;
use super::faults::incorrect_state;
use super::model::{Attachment, AttachmentPhase, Device, Disturbance, Plan, Sim, Volume};
use super::stale_reads::{meet_lag, read_with_lag, record_changes};

pub(super) fn apply(sim: &mut Sim, now: SystemTime, call: Call, injection: &FaultInjection) -> Result<Reply, Fault> {
    let target = match &call {
        Call::AttachVolume(c) => Some((c.volume_id.clone(), Some(c.instance_id.clone()))),
        Call::DetachVolume(c) => Some((c.volume_id.clone(), c.instance_id.clone().filter(|i| !i.is_empty()))),
        _ => None,
    };
    let attaches = matches!(call, Call::AttachVolume(_));
    let reply = if call.action().starts_with("Describe") {
        read_with_lag(sim, now, call, injection.lag)
    } else {
        meet_lag(sim, now, &call).and_then(|()| carry_out(sim, now, call))
    };
    let Ok(answer) = reply else { return reply };
    if let Some((volume, instance)) = target
        && let Some(attachment) = attachment_mut(sim, &volume, instance.as_deref())
    {
        if attaches {
            attachment.inject(injection);
        } else {
            attachment.stick(injection.attachment);
        }
        let described = attachment.describe(&volume);
        record_changes(sim, now);
        return Ok(match answer {
            Reply::AttachVolume(_) => Reply::AttachVolume(described),
            Reply::DetachVolume(_) => Reply::DetachVolume(described),
            other => other,
        });
    }
    record_changes(sim, now);
    Ok(answer)
}

pub(super) fn release(sim: &mut Sim, now: SystemTime, volume: &str, instance: Option<&str>) -> Result<(), Fault> {
    let attachment = attachment_mut(sim, volume, instance).ok_or_else(|| no_attachment(volume))?;
    attachment.stuck = false;
    if let AttachmentPhase::Detaching { busy, .. } = &mut attachment.phase {
        *busy = false;
    }
    sim.touch();
    record_changes(sim, now);
    Ok(())
}

/// Restores a device that vanished, and ends I/O errors.
pub(super) fn heal_device(sim: &mut Sim, volume: &str) -> Result<(), Fault> {
    let found = sim.volumes.get_mut(volume).ok_or_else(|| no_attachment(volume))?;
    let Some(attachment) = found.attachments.first_mut() else { return Err(no_attachment(volume)) };
    attachment.disturbance = None;
    if attachment.backing == Device::Vanished {
        attachment.backing = Device::Absent;
    }
    let has_device = attachment.backing != Device::None;
    found.impaired = false;
    if has_device {
        sim.emit(Effect::HealIo { volume: volume.to_owned() });
    }
    sim.touch();
    Ok(())
}

fn attachment_mut<'a>(sim: &'a mut Sim, volume: &str, instance: Option<&str>) -> Option<&'a mut Attachment> {
    let volume = sim.volumes.get_mut(volume)?;
    match instance {
        Some(instance) => volume.attachment_to(instance),
        None => volume.attachments.first_mut(),
    }
}

fn no_attachment(volume: &str) -> Fault {
    incorrect_state(format!("Volume '{volume}' is not attached."))
}

/// Makes the devices of a volume fail or vanish at their planned times. Returns whether anything changed.
pub(super) fn disturb_devices(volume: &mut Volume, now: SystemTime, effects: &mut Vec<Effect>) -> bool {
    let mut changed = false;
    for attachment in &mut volume.attachments {
        let Some(Plan::At(at, what)) = attachment.disturbance else { continue };
        if now < at {
            continue;
        }
        attachment.disturbance = None;
        changed = true;
        let there = matches!(attachment.backing, Device::Connected(_));
        let id = volume.id.clone();
        match what {
            Disturbance::Vanish if there => {
                attachment.backing = Device::Vanished;
                effects.push(Effect::Vanish { volume: id });
            }
            Disturbance::Vanish => {}
            Disturbance::IoErrors => {
                volume.impaired = true;
                if there {
                    effects.push(Effect::BreakIo { volume: id });
                }
            }
        }
    }
    changed
}
