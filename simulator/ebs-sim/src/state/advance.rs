//! Changes of the state when time passes, and when the data plane reports results.

use std::time::{Duration, SystemTime};

use super::effects::{Effect, Outcome};
use super::fault_injection::disturb_devices;
use super::instances::settle_instances;
use super::model::{
    AttachmentPhase, Device, Instance, ModificationPhase, Sim, Snapshot, SnapshotPhase, Volume, VolumePhase,
};
use super::snapshots::release_unlisted_data;
use super::stale_reads::record_changes;
use super::timing::Times;
use super::tokens::{burn_tokens_of, expire_tokens};

/// How long to wait before the next attempt to connect a device.
const RETRY_CONNECT: Duration = Duration::from_secs(1);
/// How long to wait before the next attempt to disconnect a device that was in use.
const RETRY_DISCONNECT: Duration = Duration::from_millis(200);

#[derive(Default)]
struct Changes {
    effects: Vec<Effect>,
    changed: bool,
    gone: bool,
}

/// Returns whether nothing has changed since the state was last settled, and nothing is due.
pub(super) fn is_settled(sim: &Sim, now: SystemTime) -> bool {
    let settled = sim.settled.filter(|(revision, _)| *revision == sim.revision);
    sim.effects.is_empty() && settled.is_some_and(|(_, until)| until.is_none_or(|until| now < until))
}

pub(super) fn advance(sim: &mut Sim, now: SystemTime) {
    if is_settled(sim, now) {
        return;
    }
    let times = sim.times.clone();
    // Settle instances first, because termination deletes volumes.
    let instances_changed = settle_instances(sim, now);
    let mut gone = Vec::new();
    let mut changes = Changes { changed: instances_changed, ..Changes::default() };
    sim.volumes.settle_active(|volume| {
        settle_volume(volume, now, &mut changes);
        settle_attachments(volume, now, &mut changes);
        changes.changed |= disturb_devices(volume, now, &mut changes.effects);
        settle_modification(volume, now, &times, &mut changes);
        if std::mem::take(&mut changes.gone) {
            gone.push(volume.id.clone());
        }
        // What settles without a call is due at some time; anything else begins with a call or with a finished effect.
        dues(volume).next().is_none()
    });
    for snapshot in sim.snapshots.values_mut() {
        changes.changed |= settle_snapshot(snapshot, now);
    }
    for id in gone {
        forget_volume(sim, &id, now);
        changes.effects.push(Effect::DeleteBacking { volume: id });
        changes.changed = true;
    }
    changes.changed |= expire_tokens(sim, now);
    sim.effects.append(&mut changes.effects);
    release_unlisted_data(sim);
    if changes.changed {
        sim.touch();
    }
    record_changes(sim, now);
    sim.settled = Some((sim.revision, next_due(sim, now)));
}

fn forget_volume(sim: &mut Sim, id: &str, now: SystemTime) {
    if let Some(volume) = sim.volumes.remove(id) {
        burn_tokens_of(sim, &volume.describe(), now);
    }
}

/// Returns the next time at which the state changes without a call, or `None`.
pub(super) fn next_due(sim: &Sim, now: SystemTime) -> Option<SystemTime> {
    let volumes = sim.volumes.active().flat_map(dues);
    let snapshots = sim.snapshots.values().filter_map(|s| match s.phase {
        SnapshotPhase::Pending { due, .. } => Some(due),
        SnapshotPhase::Completed { .. } | SnapshotPhase::Error { .. } => None,
    });
    // An overdue change waits for the data plane, not for time, so ignore it.
    let instances = sim.instances.iter().filter_map(Instance::due);
    volumes.chain(snapshots).chain(instances).filter(|due| *due > now).min()
}

pub(super) fn finish(sim: &mut Sim, now: SystemTime, effect: &Effect, outcome: &Outcome) {
    sim.touch();
    match effect {
        Effect::CreateBacking { volume, .. } | Effect::CopyVolume { volume, .. } => {
            finish_creation(sim, volume, outcome);
        }
        Effect::CopyToSnapshot { snapshot, .. } => finish_copy(sim, snapshot, outcome),
        Effect::Connect { volume, instance, .. } => finish_connect(sim, now, volume, instance, outcome),
        Effect::Disconnect { volume, instance, .. } => finish_disconnect(sim, now, volume, instance, outcome),
        Effect::Grow { volume, .. } => finish_growth(sim, now, volume, outcome),
        Effect::DeleteBacking { .. }
        | Effect::DeleteSnapshotData { .. }
        | Effect::Vanish { .. }
        | Effect::BreakIo { .. }
        | Effect::HealIo { .. } => {}
    }
    record_changes(sim, now);
}

fn finish_creation(sim: &mut Sim, volume: &str, outcome: &Outcome) {
    let Some(volume) = sim.volumes.get_mut(volume) else { return };
    if let VolumePhase::Creating { data_ready, .. } = &mut volume.phase {
        match outcome {
            Outcome::Done(_) => *data_ready = true,
            Outcome::Busy | Outcome::Failed(_) => volume.phase = VolumePhase::Error,
        }
    }
}

fn finish_copy(sim: &mut Sim, id: &str, outcome: &Outcome) {
    match (sim.snapshots.get_mut(id), outcome) {
        (None, _) => sim.emit(Effect::DeleteSnapshotData { snapshot: id.to_owned() }),
        (Some(snapshot), Outcome::Failed(message)) => {
            snapshot.phase = SnapshotPhase::Error { message: message.clone() };
        }
        (Some(snapshot), Outcome::Done(_) | Outcome::Busy) => {
            if let SnapshotPhase::Pending { copied, .. } = &mut snapshot.phase {
                *copied = true;
            }
        }
    }
}

fn finish_connect(sim: &mut Sim, now: SystemTime, volume: &str, instance: &str, outcome: &Outcome) {
    let Some(attachment) = sim.volumes.get_mut(volume).and_then(|v| v.attachment_to(instance)) else { return };
    let detaching = matches!(attachment.phase, AttachmentPhase::Detaching { .. });
    let disconnect = match outcome {
        Outcome::Done(device) if detaching => {
            attachment.backing = Device::Disconnecting(device.clone().unwrap_or_default());
            true
        }
        Outcome::Done(device) => {
            attachment.backing = Device::Connected(device.clone().unwrap_or_default());
            attachment.arrived(now);
            false
        }
        Outcome::Busy | Outcome::Failed(_) if detaching => {
            attachment.backing = Device::Absent;
            false
        }
        Outcome::Busy | Outcome::Failed(_) => {
            attachment.backing = Device::RetryConnect(now + RETRY_CONNECT);
            false
        }
    };
    let force = attachment.forced;
    if disconnect {
        sim.emit(Effect::Disconnect { volume: volume.to_owned(), instance: instance.to_owned(), force });
    }
}

fn finish_disconnect(sim: &mut Sim, now: SystemTime, volume: &str, instance: &str, outcome: &Outcome) {
    let Some(attachment) = sim.volumes.get_mut(volume).and_then(|v| v.attachment_to(instance)) else { return };
    match outcome {
        Outcome::Done(_) => attachment.backing = Device::Absent,
        Outcome::Busy | Outcome::Failed(_) => {
            if let Device::Disconnecting(device) = &attachment.backing {
                attachment.backing = Device::RetryDisconnect(device.clone(), now + RETRY_DISCONNECT);
            }
            if let AttachmentPhase::Detaching { busy, .. } = &mut attachment.phase {
                *busy = true;
            }
        }
    }
}

fn finish_growth(sim: &mut Sim, now: SystemTime, volume: &str, outcome: &Outcome) {
    let Some(volume) = sim.volumes.get_mut(volume) else { return };
    let Some(modification) = &mut volume.modification else { return };
    if let ModificationPhase::Modifying { grown, .. } = &mut modification.phase {
        match outcome {
            Outcome::Done(_) => *grown = true,
            Outcome::Busy | Outcome::Failed(_) => {
                let message = match outcome {
                    Outcome::Failed(message) => message.clone(),
                    _ => "the device is in use".to_owned(),
                };
                volume.size_gib = modification.original.size_gib;
                modification.phase = ModificationPhase::Failed { at: now, message };
            }
        }
    }
}

fn settle_snapshot(snapshot: &mut Snapshot, now: SystemTime) -> bool {
    match snapshot.phase {
        SnapshotPhase::Pending { due, copied: true } if due <= now => {
            snapshot.phase = SnapshotPhase::Completed { at: now };
            snapshot.start_lock(now);
            true
        }
        _ => false,
    }
}

fn settle_volume(volume: &mut Volume, now: SystemTime, changes: &mut Changes) {
    match volume.phase {
        VolumePhase::Creating { due, data_ready: true } if due <= now => {
            volume.phase = VolumePhase::Ready;
            changes.changed = true;
            changes.gone = volume.vanishes;
        }
        VolumePhase::Deleting { due } if due <= now => changes.gone = true,
        _ => {}
    }
}

fn settle_attachments(volume: &mut Volume, now: SystemTime, changes: &mut Changes) {
    for attachment in &mut volume.attachments {
        let (volume, instance) = (volume.id.clone(), attachment.instance_id.clone());
        let (linked, force) = (attachment.linked, attachment.forced);
        let breakable = attachment.io_will_fail();
        let late = attachment.device_due.is_some_and(|due| now < due);
        match (&attachment.phase, &attachment.backing) {
            (AttachmentPhase::Attaching { due }, Device::None | Device::Connected(_))
                if *due <= now && !attachment.stuck =>
            {
                attachment.phase = AttachmentPhase::Attached;
                attachment.arrived(now);
                changes.changed = true;
            }
            (AttachmentPhase::Attaching { due }, Device::Absent) if *due <= now && late && !attachment.stuck => {
                attachment.phase = AttachmentPhase::Attached;
                changes.changed = true;
            }
            (AttachmentPhase::Attaching { due }, Device::Absent) if *due <= now && !attachment.stuck => {
                changes.effects.push(Effect::Connect { volume, instance, linked, breakable });
                attachment.backing = Device::Connecting;
                changes.changed = true;
            }
            // The device was delayed, or it vanished and was healed.
            (AttachmentPhase::Attached, Device::Absent) if !late => {
                changes.effects.push(Effect::Connect { volume, instance, linked, breakable });
                attachment.backing = Device::Connecting;
                changes.changed = true;
            }
            (AttachmentPhase::Attaching { .. } | AttachmentPhase::Attached, Device::RetryConnect(at)) if *at <= now => {
                changes.effects.push(Effect::Connect { volume, instance, linked, breakable });
                attachment.backing = Device::Connecting;
                changes.changed = true;
            }
            (AttachmentPhase::Detaching { .. }, Device::RetryDisconnect(device, at)) if *at <= now => {
                changes.effects.push(Effect::Disconnect { volume, instance, force });
                attachment.backing = Device::Disconnecting(device.clone());
                changes.changed = true;
            }
            _ => {}
        }
    }
    let before = volume.attachments.len();
    volume.attachments.retain(|a| {
        !matches!(
            (&a.phase, &a.backing),
            (AttachmentPhase::Detaching { due, .. }, Device::None | Device::Absent) if *due <= now && !a.stuck
        )
    });
    changes.changed |= volume.attachments.len() != before;
}

fn settle_modification(volume: &mut Volume, now: SystemTime, times: &Times, changes: &mut Changes) {
    let Some(modification) = &mut volume.modification else { return };
    if let ModificationPhase::Modifying { due, grown: true } = modification.phase
        && due <= now
    {
        modification.phase = ModificationPhase::Optimizing { due: times.due(now, times.optimize, Some(&volume.id)) };
        changes.changed = true;
    }
    if let ModificationPhase::Optimizing { due } = modification.phase
        && due <= now
    {
        modification.phase = ModificationPhase::Completed { at: now };
        changes.changed = true;
    }
}

/// Returns every time at which a part of the volume is due to settle.
fn dues(volume: &Volume) -> impl Iterator<Item = SystemTime> {
    let own = match volume.phase {
        VolumePhase::Creating { due, .. } | VolumePhase::Deleting { due } => Some(due),
        VolumePhase::Ready | VolumePhase::Error => None,
    };
    let modification = volume.modification.as_ref().and_then(|m| match m.phase {
        ModificationPhase::Modifying { due, .. } | ModificationPhase::Optimizing { due } => Some(due),
        ModificationPhase::Completed { .. } | ModificationPhase::Failed { .. } => None,
    });
    let attachments = volume.attachments.iter().flat_map(|a| {
        let phase = match a.phase {
            _ if a.stuck => None,
            AttachmentPhase::Attaching { due } | AttachmentPhase::Detaching { due, .. } => Some(due),
            AttachmentPhase::Attached => a.device_due,
        };
        let retry = match a.backing {
            Device::RetryConnect(at) | Device::RetryDisconnect(_, at) => Some(at),
            Device::None
            | Device::Absent
            | Device::Connecting
            | Device::Connected(_)
            | Device::Disconnecting(_)
            | Device::Vanished => None,
        };
        phase.into_iter().chain(retry).chain(a.disturbed_at())
    });
    own.into_iter().chain(modification).chain(attachments)
}
