//! Effects of fault rules on calls and attachments, as they occur in EC2.

use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::api::{Call, Fault, Reply};
use crate::faults::{Attachment as Stuck, Device as DeviceFault, FaultInjection};

use super::Sim;
use super::effects::Effect;
use super::faults::incorrect_state;
use super::model::{Attachment, AttachmentPhase, Device, Volume};

/// A disturbance of the device of an attached volume.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Disturbance {
    /// It disappears, though EC2 reports `attached`.
    Vanish,
    /// Its reads, writes and flushes fail with I/O errors, and EC2 reports the volume as impaired.
    IoErrors,
}

/// A planned disturbance of a device some time after it has appeared.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Plan {
    After(Duration, Disturbance),
    At(SystemTime, Disturbance),
}

impl Sim {
    /// Executes one call with the faults that rules inject into it.
    pub(crate) fn apply_with(
        &mut self,
        now: SystemTime,
        call: Call,
        injection: &FaultInjection,
    ) -> Result<Reply, Fault> {
        let target = match &call {
            Call::AttachVolume(c) => Some((c.volume_id.clone(), Some(c.instance_id.clone()))),
            Call::DetachVolume(c) => Some((c.volume_id.clone(), c.instance_id.clone().filter(|i| !i.is_empty()))),
            _ => None,
        };
        let attaches = matches!(call, Call::AttachVolume(_));
        let reply = if call.action().starts_with("Describe") {
            self.look(now, call, injection.lag)
        } else {
            self.meet_lag(now, &call).and_then(|()| self.carry_out(now, call))
        };
        let Ok(answer) = reply else { return reply };
        if let Some((volume, instance)) = target
            && let Some(attachment) = self.attachment_mut(&volume, instance.as_deref())
        {
            if attaches {
                attachment.inject(injection);
            } else {
                attachment.stick(injection.attachment);
            }
            let described = attachment.describe(&volume);
            self.note_changes(now);
            return Ok(match answer {
                Reply::AttachVolume(_) => Reply::AttachVolume(described),
                Reply::DetachVolume(_) => Reply::DetachVolume(described),
                other => other,
            });
        }
        self.note_changes(now);
        Ok(answer)
    }

    /// Releases a stuck attachment.
    ///
    /// # Errors
    /// `IncorrectState` when no such attachment exists.
    pub(crate) fn release(&mut self, now: SystemTime, volume: &str, instance: Option<&str>) -> Result<(), Fault> {
        let attachment = self.attachment_mut(volume, instance).ok_or_else(|| no_attachment(volume))?;
        attachment.stuck = false;
        if let AttachmentPhase::Detaching { busy, .. } = &mut attachment.phase {
            *busy = false;
        }
        self.touch();
        self.note_changes(now);
        Ok(())
    }

    /// Restores a device that vanished, and ends I/O errors.
    ///
    /// # Errors
    /// `IncorrectState` when the volume is not attached.
    pub(crate) fn heal_device(&mut self, volume: &str) -> Result<(), Fault> {
        let found = self.volumes.get_mut(volume).ok_or_else(|| no_attachment(volume))?;
        let Some(attachment) = found.attachments.first_mut() else { return Err(no_attachment(volume)) };
        attachment.disturbance = None;
        if attachment.backing == Device::Vanished {
            attachment.backing = Device::Absent;
        }
        let has_device = attachment.backing != Device::None;
        found.impaired = false;
        if has_device {
            self.emit(Effect::HealIo { volume: volume.to_owned() });
        }
        self.touch();
        Ok(())
    }

    fn attachment_mut(&mut self, volume: &str, instance: Option<&str>) -> Option<&mut Attachment> {
        let volume = self.volumes.get_mut(volume)?;
        match instance {
            Some(instance) => volume.attachment_to(instance),
            None => volume.attachments.first_mut(),
        }
    }
}

fn no_attachment(volume: &str) -> Fault {
    incorrect_state(format!("Volume '{volume}' is not attached."))
}

impl Attachment {
    fn inject(&mut self, injection: &FaultInjection) {
        self.stuck |= injection.attachment == Some(Stuck::StuckAttaching);
        match injection.device {
            None => {}
            Some(DeviceFault::OtherName) => self.linked = false,
            Some(DeviceFault::Late(late)) => {
                if let AttachmentPhase::Attaching { due } = self.phase {
                    self.device_due = Some(due + late);
                }
            }
            Some(DeviceFault::Vanish(after)) => self.disturbance = Some(Plan::After(after, Disturbance::Vanish)),
            Some(DeviceFault::IoError(after)) => self.disturbance = Some(Plan::After(after, Disturbance::IoErrors)),
        }
    }

    fn stick(&mut self, how: Option<Stuck>) {
        if let (Some(Stuck::StuckDetaching | Stuck::Busy), AttachmentPhase::Detaching { busy, .. }) =
            (how, &mut self.phase)
        {
            *busy = how == Some(Stuck::Busy);
            self.stuck = true;
        }
    }

    /// Schedules the planned disturbance of a device that has appeared.
    pub(super) fn arrived(&mut self, now: SystemTime) {
        if let Some(Plan::After(after, what)) = self.disturbance {
            self.disturbance = Some(Plan::At(now + after, what));
        }
    }

    /// Returns whether the I/O of the device is going to fail.
    pub(super) fn io_will_fail(&self) -> bool {
        matches!(self.disturbance, Some(Plan::After(_, Disturbance::IoErrors) | Plan::At(_, Disturbance::IoErrors)))
    }

    /// Returns the time of the disturbance.
    pub(super) fn disturbed_at(&self) -> Option<SystemTime> {
        match self.disturbance {
            Some(Plan::At(at, _)) => Some(at),
            Some(Plan::After(..)) | None => None,
        }
    }
}

impl Volume {
    /// Applies due disturbances to its devices. Returns whether something changed.
    pub(super) fn disturb_devices(&mut self, now: SystemTime, effects: &mut Vec<Effect>) -> bool {
        let mut changed = false;
        for attachment in &mut self.attachments {
            let Some(Plan::At(at, what)) = attachment.disturbance else { continue };
            if now < at {
                continue;
            }
            attachment.disturbance = None;
            changed = true;
            let there = matches!(attachment.backing, Device::Connected(_));
            let volume = self.id.clone();
            match what {
                Disturbance::Vanish if there => {
                    attachment.backing = Device::Vanished;
                    effects.push(Effect::Vanish { volume });
                }
                Disturbance::Vanish => {}
                Disturbance::IoErrors => {
                    self.impaired = true;
                    if there {
                        effects.push(Effect::BreakIo { volume });
                    }
                }
            }
        }
        changed
    }
}
