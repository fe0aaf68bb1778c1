//! AttachVolume and DetachVolume.

use std::collections::BTreeMap;
use std::time::SystemTime;

use ebs_ec2::{ebs_cards, is_xen};

use crate::api::{AttachVolume, DetachVolume, Fault, Reply};

use super::effects::Effect;
use super::faults::{self, incorrect_state, invalid_value};
use super::ids::Kind;
use super::model::{
    Attachment, AttachmentPhase, Device, Instance, InstancePhase, ModificationPhase, Sim, Volume, VolumePhase,
};
use super::volumes::volume_mut;

/// Maximum number of instances that can share a volume.
const MAX_SHARERS: usize = 16;

pub(super) fn attach_volume(sim: &mut Sim, now: SystemTime, call: &AttachVolume) -> Result<Reply, Fault> {
    let device = call.device.as_deref().filter(|d| !d.is_empty()).ok_or_else(|| faults::missing("device"))?;
    volume_mut(sim, &call.volume_id)?;
    let instance = find_instance(sim, &call.instance_id)?.clone();
    check_device_name(device)?;
    let card = card_of(call, &instance)?;
    let volume = &sim.volumes[&call.volume_id];
    if !matches!(instance.phase, InstancePhase::Running | InstancePhase::Stopped) {
        return Err(incorrect_state(format!("Instance '{}' is not 'running'.", instance.id)));
    }
    check_attachable(volume, &instance)?;
    check_device_free(sim, &instance, device)?;
    let stuck = !has_free_slot(sim, &instance)?;
    faults::unless_dry_run(call.dry_run)?;
    let due = sim.times.due(now, sim.times.attach, Some(&call.volume_id));
    let attachment = Attachment { card, stuck, ..Attachment::new(&instance, device, now, due) };
    let reply = attachment.describe(&call.volume_id);
    volume_mut(sim, &call.volume_id)?.attachments.push(attachment);
    sim.touch();
    Ok(Reply::AttachVolume(reply))
}

pub(super) fn find_instance<'a>(sim: &'a Sim, id: &str) -> Result<&'a Instance, Fault> {
    if id.is_empty() {
        return Err(faults::missing("InstanceId"));
    }
    Kind::Instance.check(id)?;
    sim.instances.iter().find(|i| i.id == id).ok_or_else(|| faults::no_such_instance(id))
}

pub(super) fn end_attachments(sim: &mut Sim, now: SystemTime, instance: &str) {
    let gone_at = sim.times.due(now, sim.times.delete, Some(instance));
    let mut effects = Vec::new();
    for volume in sim.volumes.values_mut() {
        let id = volume.id.clone();
        let Some(attachment) = volume.attachment_to(instance) else { continue };
        let goes_with_it = attachment.delete_on_termination;
        attachment.forced = true;
        if attachment.start_detaching(now) {
            effects.push(Effect::Disconnect { volume: id, instance: instance.to_owned(), force: true });
        }
        if matches!(attachment.backing, Device::None | Device::Absent) {
            volume.attachments.retain(|a| a.instance_id != instance);
        }
        if goes_with_it && volume.attachments.is_empty() {
            volume.phase = VolumePhase::Deleting { due: gone_at };
        }
    }
    sim.effects.append(&mut effects);
}

/// Returns the attachments of an instance in any state, including its root volume.
pub(super) fn attachments_of<'a>(sim: &'a Sim, instance: &'a str) -> impl Iterator<Item = (&'a str, &'a Attachment)> {
    sim.volumes
        .values()
        .flat_map(move |v| v.attachments.iter().filter(move |a| a.instance_id == instance).map(|a| (v.id.as_str(), a)))
}

/// Returns the attachments of all instances, after a single visit to each volume.
pub(super) fn attachments_by_instance(sim: &Sim) -> BTreeMap<&str, Vec<(&str, &Attachment)>> {
    let mut found: BTreeMap<&str, Vec<(&str, &Attachment)>> = BTreeMap::new();
    for volume in sim.volumes.values() {
        for attachment in &volume.attachments {
            found.entry(&attachment.instance_id).or_default().push((volume.id.as_str(), attachment));
        }
    }
    found
}

fn check_device_free(sim: &Sim, instance: &Instance, device: &str) -> Result<(), Fault> {
    if attachments_of(sim, &instance.id).any(|(_, a)| disk_of(&a.device) == disk_of(device)) {
        return Err(invalid_value(format!(
            "Invalid value '{device}' for unixDevice. Attachment point {device} is already in use"
        )));
    }
    Ok(())
}

/// Returns whether the instance has a free slot. If it has none, fails, unless the account is configured to accept the
/// volume, which then stays `attaching`.
fn has_free_slot(sim: &Sim, instance: &Instance) -> Result<bool, Fault> {
    let slots = instance.slots();
    let is_free = attachments_of(sim, &instance.id).count() < slots;
    if !is_free && !sim.policy.account.oddities.full_instances_attach_for_ever {
        return Err(Fault::new(
            "AttachmentLimitExceeded",
            format!(
                "You may attach up to {slots} devices for this instance type. Please use a larger instance size to \
                 attach more volumes."
            ),
        ));
    }
    Ok(is_free)
}

pub(super) fn detach_volume(sim: &mut Sim, now: SystemTime, call: &DetachVolume) -> Result<Reply, Fault> {
    let due = sim.times.due(now, sim.times.detach, Some(&call.volume_id));
    if let Some(instance) = call.instance_id.as_deref().filter(|i| !i.is_empty()) {
        Kind::Instance.check(instance)?;
    }
    let volume = volume_mut(sim, &call.volume_id)?;
    let id = volume.id.clone();
    let instance_id = detachable(volume, call)?;
    let device = volume.attachment_to(&instance_id).map(|a| a.device.clone());
    let instance = sim.instances.iter().find(|i| i.id == instance_id);
    instance.map_or(Ok(()), |instance| check_detachable_from(instance, &id, device.as_deref()))?;
    faults::unless_dry_run(call.dry_run)?;
    let stopped = instance.is_some_and(|i| i.phase == InstancePhase::Stopped);
    let volume = volume_mut(sim, &id)?;
    let attachment = volume.attachment_to(&instance_id).expect("found above");
    attachment.forced = call.force;
    // A stopped instance does not use its devices, so the detachment ends at once.
    let due = if call.force || stopped { now } else { due };
    let disconnect = attachment.start_detaching(due);
    let reply = attachment.describe(&id);
    if disconnect {
        sim.emit(Effect::Disconnect { volume: id, instance: instance_id, force: call.force });
    }
    sim.touch();
    Ok(Reply::DetachVolume(reply))
}

/// Returns the part of a device name that identifies it: `/dev/sdb` and `/dev/xvdb` are the same device.
fn disk_of(device: &str) -> &str {
    device.strip_prefix("/dev/xvd").or_else(|| device.strip_prefix("/dev/sd")).unwrap_or(device)
}

/// Rejects detaching from an instance that is ending, and detaching the root volume of an instance that is not stopped.
fn check_detachable_from(instance: &Instance, volume: &str, device: Option<&str>) -> Result<(), Fault> {
    let Instance { id, phase, .. } = instance;
    if matches!(phase, InstancePhase::ShuttingDown { .. } | InstancePhase::Terminated { .. }) {
        return Err(Fault::new(
            "IncorrectInstanceState",
            format!(
                "Unable to detach volume '{volume}' from instance '{id}'. The instance is not in a state in which volumes \
                 can be detached."
            ),
        ));
    }
    if device == Some(&instance.root_device) && *phase != InstancePhase::Stopped {
        return Err(incorrect_state(format!("Unable to detach root volume '{volume}' from instance '{id}'")));
    }
    Ok(())
}

fn card_of(call: &AttachVolume, instance: &Instance) -> Result<Option<u32>, Fault> {
    let cards = ebs_cards(&instance.instance_type);
    match call.ebs_card_index.map(u32::try_from) {
        None => Ok((cards > 1).then_some(0)),
        Some(Ok(card)) if card < cards => Ok(Some(card)),
        Some(_) => Err(invalid_value(format!(
            "EbsCardIndex is out of range: instance type {} has {cards} EBS card(s).",
            instance.instance_type
        ))),
    }
}

fn check_attachable(volume: &Volume, instance: &Instance) -> Result<(), Fault> {
    if volume.phase != VolumePhase::Ready {
        return Err(incorrect_state(format!("{} is not 'available'.", volume.id)));
    }
    if volume.zone != instance.zone {
        return Err(Fault::new(
            "InvalidVolume.ZoneMismatch",
            format!("The volume '{}' is not in the same availability zone as instance '{}'", volume.id, instance.id),
        ));
    }
    let in_use = |what: String| Err(Fault::new("VolumeInUse", what));
    if volume.attachments.iter().any(|a| a.instance_id == instance.id) {
        return in_use(format!("{} is already attached to an instance", volume.id));
    }
    if volume.multi_attach && is_xen(&instance.instance_type) {
        return Err(faults::unsupported(format!(
            "Multi-Attach volumes can only be attached to instances built on Nitro, not to {}.",
            instance.instance_type
        )));
    }
    match volume.attachments.len() {
        _ if is_modifying(volume) && (volume.attachments.is_empty() || volume.multi_attach) => Err(Fault::new(
            "OperationNotPermitted",
            format!("Cannot attach volume {} when it is in modification state: MODIFYING", volume.id),
        )),
        0 => Ok(()),
        _ if !volume.multi_attach => in_use(format!("{} is already attached to an instance", volume.id)),
        n if n >= MAX_SHARERS => in_use(format!("{} is already attached to {MAX_SHARERS} instances", volume.id)),
        _ => Ok(()),
    }
}

fn is_modifying(volume: &Volume) -> bool {
    volume.modification.as_ref().is_some_and(|m| matches!(m.phase, ModificationPhase::Modifying { .. }))
}

fn detachable(volume: &Volume, call: &DetachVolume) -> Result<String, Fault> {
    let not_attached = |what: String| Err(Fault::new("InvalidAttachment.NotFound", what));
    if volume.attachments.iter().any(|a| a.associated_resource.is_some()) {
        return Err(faults::managed_volume(&volume.id));
    }
    let attachment = match (call.instance_id.as_deref().filter(|i| !i.is_empty()), volume.attachments.as_slice()) {
        (_, []) => {
            return Err(incorrect_state(format!("Volume '{}' is in the '{}' state.", volume.id, volume.state())));
        }
        (Some(instance), all) => match all.iter().find(|a| a.instance_id == instance) {
            Some(attachment) => attachment,
            None => return not_attached(format!("Volume '{}' is not attached to instance '{instance}'.", volume.id)),
        },
        (None, [only]) => only,
        (None, _) => return Err(faults::missing("InstanceId")),
    };
    if let Some(device) = call.device.as_deref().filter(|d| !d.is_empty() && *d != attachment.device) {
        return not_attached(format!("Volume '{}' is not attached as device '{device}'.", volume.id));
    }
    if let AttachmentPhase::Detaching { .. } = attachment.phase
        && !call.force
    {
        return Err(incorrect_state(format!("Volume '{}' is in the 'detaching' state.", volume.id)));
    }
    Ok(attachment.instance_id.clone())
}

/// Checks a device name with EC2's rules: `/dev/sd[a-z]` with up to two digits, or `/dev/xvda` to `/dev/xvddx`.
pub(super) fn check_device_name(device: &str) -> Result<(), Fault> {
    let lower = |b: &u8| b.is_ascii_lowercase();
    let valid = if let Some(rest) = device.strip_prefix("/dev/xvd") {
        match rest.as_bytes() {
            [a] => lower(a),
            [a @ b'a'..=b'c', b] => lower(a) && lower(b),
            [b'd', b] => (b'a'..=b'x').contains(b),
            _ => false,
        }
    } else if let Some(rest) = device.strip_prefix("/dev/sd") {
        match rest.as_bytes() {
            [a] => lower(a),
            [a, digits @ ..] => lower(a) && digits.len() <= 2 && digits.iter().all(u8::is_ascii_digit),
            [] => false,
        }
    } else {
        false
    };
    if valid {
        return Ok(());
    }
    Err(invalid_value(format!(
        "Value ({device}) for parameter device is invalid. {device} is not a valid EBS device name."
    )))
}
