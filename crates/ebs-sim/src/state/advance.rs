//! Handles elapsed time and results of the data plane.

use std::time::{Duration, SystemTime};

use super::Sim;
use super::effects::{Effect, Outcome};
use super::instances::Instance;
use super::model::{AttachmentPhase, Device, ModificationPhase, Snapshot, SnapshotPhase, Volume, VolumePhase};
use super::timing::Times;

/// Pause after a device could not be connected.
const RETRY_CONNECT: Duration = Duration::from_secs(1);
/// Pause after a device was in use.
const RETRY_DISCONNECT: Duration = Duration::from_millis(200);

/// The result of processing a volume.
#[derive(Default)]
struct Changes {
    effects: Vec<Effect>,
    changed: bool,
    gone: bool,
}

impl Sim {
    /// Returns whether nothing has changed since it was settled, and nothing is due or to be done. This is so for most
    /// calls.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        let settled = self.settled.filter(|(revision, _)| *revision == self.revision);
        self.effects.is_empty() && settled.is_some_and(|(_, until)| until.is_none_or(|until| now < until))
    }

    /// Settles everything that is due.
    pub(crate) fn advance(&mut self, now: SystemTime) {
        if self.is_settled(now) {
            return;
        }
        let times = self.times.clone();
        // First, because volumes are deleted with instances.
        let instances_changed = self.settle_instances(now);
        let mut gone = Vec::new();
        let mut changes = Changes { changed: instances_changed, ..Changes::default() };
        for volume in self.volumes.values_mut() {
            volume.settle(now, &mut changes);
            volume.settle_attachments(now, &mut changes);
            changes.changed |= volume.disturb_devices(now, &mut changes.effects);
            volume.settle_modification(now, &times, &mut changes);
            if std::mem::take(&mut changes.gone) {
                gone.push(volume.id.clone());
            }
        }
        for snapshot in self.snapshots.values_mut() {
            changes.changed |= snapshot.settle(now);
        }
        for id in gone {
            self.forget_volume(&id, now);
            changes.effects.push(Effect::DeleteBacking { volume: id });
            changes.changed = true;
        }
        changes.changed |= self.expire_tokens(now);
        self.effects.append(&mut changes.effects);
        self.release_unlisted_data();
        if changes.changed {
            self.touch();
        }
        self.note_changes(now);
        self.settled = Some((self.revision, self.next_due(now)));
    }

    fn forget_volume(&mut self, id: &str, now: SystemTime) {
        if let Some(volume) = self.volumes.remove(id) {
            self.burn_tokens_of(&volume.describe(), now);
        }
    }

    /// Returns the next time at which something settles by itself; `None`: nothing does.
    pub(crate) fn next_due(&self, now: SystemTime) -> Option<SystemTime> {
        let volumes = self.volumes.values().flat_map(Volume::dues);
        let snapshots = self.snapshots.values().filter_map(|s| match s.phase {
            SnapshotPhase::Pending { due, .. } => Some(due),
            SnapshotPhase::Completed { .. } | SnapshotPhase::Error { .. } => None,
        });
        // Overdue changes wait for the data plane, not for time.
        let instances = self.instances.iter().filter_map(Instance::due);
        volumes.chain(snapshots).chain(instances).filter(|due| *due > now).min()
    }

    /// Applies the result of an effect.
    pub(crate) fn finish(&mut self, now: SystemTime, effect: &Effect, outcome: &Outcome) {
        self.touch();
        match effect {
            Effect::CreateBacking { volume, .. } | Effect::CopyVolume { volume, .. } => {
                self.finish_creation(volume, outcome);
            }
            Effect::CopyToSnapshot { snapshot, .. } => self.finish_copy(snapshot, outcome),
            Effect::Connect { volume, instance, .. } => self.finish_connect(now, volume, instance, outcome),
            Effect::Disconnect { volume, instance, .. } => self.finish_disconnect(now, volume, instance, outcome),
            Effect::Grow { volume, .. } => self.finish_growth(now, volume, outcome),
            Effect::DeleteBacking { .. }
            | Effect::DeleteSnapshotData { .. }
            | Effect::Vanish { .. }
            | Effect::BreakIo { .. }
            | Effect::HealIo { .. } => {}
        }
        self.note_changes(now);
    }

    fn finish_creation(&mut self, volume: &str, outcome: &Outcome) {
        let Some(volume) = self.volumes.get_mut(volume) else { return };
        if let VolumePhase::Creating { data_ready, .. } = &mut volume.phase {
            match outcome {
                Outcome::Done(_) => *data_ready = true,
                Outcome::Busy | Outcome::Failed(_) => volume.phase = VolumePhase::Error,
            }
        }
    }

    fn finish_copy(&mut self, id: &str, outcome: &Outcome) {
        match (self.snapshots.get_mut(id), outcome) {
            (None, _) => self.emit(Effect::DeleteSnapshotData { snapshot: id.to_owned() }),
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

    fn finish_connect(&mut self, now: SystemTime, volume: &str, instance: &str, outcome: &Outcome) {
        let Some(attachment) = self.volumes.get_mut(volume).and_then(|v| v.attachment_to(instance)) else { return };
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
            self.emit(Effect::Disconnect { volume: volume.to_owned(), instance: instance.to_owned(), force });
        }
    }

    fn finish_disconnect(&mut self, now: SystemTime, volume: &str, instance: &str, outcome: &Outcome) {
        let Some(attachment) = self.volumes.get_mut(volume).and_then(|v| v.attachment_to(instance)) else { return };
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

    fn finish_growth(&mut self, now: SystemTime, volume: &str, outcome: &Outcome) {
        let Some(volume) = self.volumes.get_mut(volume) else { return };
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
}

impl Snapshot {
    fn settle(&mut self, now: SystemTime) -> bool {
        match self.phase {
            SnapshotPhase::Pending { due, copied: true } if due <= now => {
                self.phase = SnapshotPhase::Completed { at: now };
                self.start_lock(now);
                true
            }
            _ => false,
        }
    }
}

impl Volume {
    fn settle(&mut self, now: SystemTime, changes: &mut Changes) {
        match self.phase {
            VolumePhase::Creating { due, data_ready: true } if due <= now => {
                self.phase = VolumePhase::Ready;
                changes.changed = true;
                changes.gone = self.vanishes;
            }
            VolumePhase::Deleting { due } if due <= now => changes.gone = true,
            _ => {}
        }
    }

    fn settle_attachments(&mut self, now: SystemTime, changes: &mut Changes) {
        let volume = &self.id;
        for attachment in &mut self.attachments {
            let (volume, instance) = (volume.clone(), attachment.instance_id.clone());
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
                // It was late, or had vanished.
                (AttachmentPhase::Attached, Device::Absent) if !late => {
                    changes.effects.push(Effect::Connect { volume, instance, linked, breakable });
                    attachment.backing = Device::Connecting;
                    changes.changed = true;
                }
                (AttachmentPhase::Attaching { .. } | AttachmentPhase::Attached, Device::RetryConnect(at))
                    if *at <= now =>
                {
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
        let before = self.attachments.len();
        self.attachments.retain(|a| {
            !matches!(
                (&a.phase, &a.backing),
                (AttachmentPhase::Detaching { due, .. }, Device::None | Device::Absent) if *due <= now && !a.stuck
            )
        });
        changes.changed |= self.attachments.len() != before;
    }

    fn settle_modification(&mut self, now: SystemTime, times: &Times, changes: &mut Changes) {
        let Some(modification) = &mut self.modification else { return };
        if let ModificationPhase::Modifying { due, grown: true } = modification.phase
            && due <= now
        {
            modification.phase = ModificationPhase::Optimizing { due: times.due(now, times.optimize, Some(&self.id)) };
            changes.changed = true;
        }
        if let ModificationPhase::Optimizing { due } = modification.phase
            && due <= now
        {
            modification.phase = ModificationPhase::Completed { at: now };
            changes.changed = true;
        }
    }

    /// Returns every time at which something of the volume may settle.
    fn dues(&self) -> impl Iterator<Item = SystemTime> {
        let own = match self.phase {
            VolumePhase::Creating { due, .. } | VolumePhase::Deleting { due } => Some(due),
            VolumePhase::Ready | VolumePhase::Error => None,
        };
        let modification = self.modification.as_ref().and_then(|m| match m.phase {
            ModificationPhase::Modifying { due, .. } | ModificationPhase::Optimizing { due } => Some(due),
            ModificationPhase::Completed { .. } | ModificationPhase::Failed { .. } => None,
        });
        let attachments = self.attachments.iter().flat_map(|a| {
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
}
