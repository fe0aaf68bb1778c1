//! The stored form of volumes, attachments and modifications, and their descriptions.

use std::time::{Duration, SystemTime};

use ebs_ec2::{Tags, VolumeType};
use serde::{Deserialize, Serialize};

use crate::api::{SimAttachment, SimInitialization, SimModification, SimProperties, SimVolume};
use crate::faults::{Attachment as Stuck, Device as DeviceFault, FaultInjection};

use super::instance::Instance;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum VolumePhase {
    /// The volume is available when `due` has passed and its data is in place.
    Creating {
        due: SystemTime,
        data_ready: bool,
    },
    Ready,
    /// The volume is gone when `due` has passed.
    Deleting {
        due: SystemTime,
    },
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct Volume {
    pub(in crate::state) id: String,
    pub(in crate::state) phase: VolumePhase,
    pub(in crate::state) size_gib: u32,
    pub(in crate::state) volume_type: VolumeType,
    pub(in crate::state) iops: Option<u32>,
    pub(in crate::state) throughput: Option<u32>,
    pub(in crate::state) zone: String,
    pub(in crate::state) zone_id: String,
    pub(in crate::state) encrypted: bool,
    pub(in crate::state) kms_key_id: Option<String>,
    /// Whether the volume disappears instead of becoming available, because its key is unusable.
    pub(in crate::state) vanishes: bool,
    pub(in crate::state) snapshot_id: Option<String>,
    pub(in crate::state) source_volume_id: Option<String>,
    pub(in crate::state) initialization_rate: Option<u32>,
    pub(in crate::state) fast_restored: bool,
    pub(in crate::state) multi_attach: bool,
    pub(in crate::state) created: SystemTime,
    pub(in crate::state) tags: Tags,
    pub(in crate::state) attachments: Vec<Attachment>,
    pub(in crate::state) modification: Option<Modification>,
    /// Times of the modifications in the last day.
    pub(in crate::state) modified_at: Vec<SystemTime>,
    pub(in crate::state) last_snapshot: Option<SystemTime>,
    pub(in crate::state) filling: Option<Filling>,
    pub(in crate::state) outpost_arn: Option<String>,
    pub(in crate::state) impaired: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum AttachmentPhase {
    /// The attachment is complete when `due` has passed and the device exists.
    Attaching {
        due: SystemTime,
    },
    Attached,
    /// The attachment is gone when `due` has passed and the device is gone. `busy` is true while the device is in use.
    Detaching {
        due: SystemTime,
        busy: bool,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum Device {
    /// The attachment never has a device: it belongs to another machine's instance, or it is a root volume.
    None,
    Absent,
    Connecting,
    Connected(String),
    Disconnecting(String),
    /// The last attempt to connect the device failed. The next attempt is at this time.
    RetryConnect(SystemTime),
    /// The device was in use. The next attempt to disconnect it is at this time.
    RetryDisconnect(String, SystemTime),
    Vanished,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct Attachment {
    pub(in crate::state) instance_id: String,
    pub(in crate::state) device: String,
    pub(in crate::state) phase: AttachmentPhase,
    pub(in crate::state) attach_time: SystemTime,
    pub(in crate::state) delete_on_termination: bool,
    pub(in crate::state) card: Option<u32>,
    pub(in crate::state) backing: Device,
    /// The SageMaker cluster node of the attachment. If set, EC2 does not know `instance_id`.
    pub(in crate::state) associated_resource: Option<String>,
    /// Whether a fault rule keeps the attachment in its current state.
    pub(in crate::state) stuck: bool,
    pub(in crate::state) forced: bool,
    pub(in crate::state) disturbance: Option<Plan>,
    pub(in crate::state) device_due: Option<SystemTime>,
    pub(in crate::state) linked: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum ModificationPhase {
    /// The modification continues when `due` has passed and the data has grown.
    Modifying {
        due: SystemTime,
        grown: bool,
    },
    Optimizing {
        due: SystemTime,
    },
    Completed {
        at: SystemTime,
    },
    Failed {
        at: SystemTime,
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct Modification {
    pub(in crate::state) phase: ModificationPhase,
    pub(in crate::state) original: SimProperties,
    pub(in crate::state) target: SimProperties,
    pub(in crate::state) started: SystemTime,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum Disturbance {
    /// The device disappears, although EC2 reports `attached`.
    Vanish,
    /// Reads, writes and flushes of the device fail with I/O errors, and EC2 reports the volume as impaired.
    IoErrors,
}

/// When a disturbance happens: some time after the device appears, or at a fixed time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum Plan {
    After(Duration, Disturbance),
    At(SystemTime, Disturbance),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) enum Way {
    Default,
    ProvisionedRate,
    VolumeCopy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::state) struct Filling {
    pub(in crate::state) way: Way,
    pub(in crate::state) from: SystemTime,
    pub(in crate::state) until: SystemTime,
}

impl Filling {
    pub(in crate::state) fn is_done(&self, now: SystemTime) -> bool {
        self.until <= now
    }

    fn percent(&self, now: SystemTime) -> u32 {
        if self.is_done(now) {
            return 100;
        }
        percent(self.from, now, self.until)
    }

    pub(in crate::state) fn describe(&self, now: SystemTime) -> SimInitialization {
        let (name, estimated) = match self.way {
            Way::Default => ("default", false),
            Way::ProvisionedRate => ("provisioned-rate", true),
            Way::VolumeCopy => ("volume-copy", true),
        };
        let left = self.until.duration_since(now).unwrap_or_default().as_secs();
        SimInitialization {
            initialization_type: name.to_owned(),
            progress: self.percent(now),
            // EC2 estimates the remaining time unless it uses the default rate.
            estimated_seconds: Some(left).filter(|_| estimated && !self.is_done(now)),
        }
    }
}

impl Device {
    /// Returns whether the attachment has, or may have, a device of this machine.
    pub(in crate::state) fn is_connected(&self) -> bool {
        !matches!(self, Self::None | Self::Absent | Self::Vanished)
    }
}

impl Volume {
    pub(in crate::state) fn state(&self) -> &'static str {
        match self.phase {
            VolumePhase::Creating { .. } => "creating",
            VolumePhase::Ready if self.attachments.is_empty() => "available",
            VolumePhase::Ready => "in-use",
            VolumePhase::Deleting { .. } => "deleting",
            VolumePhase::Error => "error",
        }
    }

    pub(in crate::state) fn properties(&self) -> SimProperties {
        SimProperties {
            size_gib: self.size_gib,
            volume_type: self.volume_type.clone(),
            iops: self.iops,
            throughput: self.throughput,
            multi_attach: self.multi_attach,
        }
    }

    pub(in crate::state) fn attachment_to(&mut self, instance: &str) -> Option<&mut Attachment> {
        self.attachments.iter_mut().find(|a| a.instance_id == instance)
    }

    pub(in crate::state) fn describe(&self) -> SimVolume {
        SimVolume {
            id: self.id.clone(),
            state: self.state().to_owned(),
            size_gib: self.size_gib,
            volume_type: self.volume_type.as_str().to_owned(),
            iops: self.iops,
            throughput: self.throughput,
            zone: self.zone.clone(),
            zone_id: self.zone_id.clone(),
            encrypted: self.encrypted,
            kms_key_id: self.kms_key_id.clone(),
            snapshot_id: self.snapshot_id.clone(),
            source_volume_id: self.source_volume_id.clone(),
            volume_initialization_rate: self.initialization_rate,
            multi_attach: self.multi_attach,
            outpost_arn: self.outpost_arn.clone(),
            fast_restored: self.fast_restored,
            created: self.created,
            tags: self.tags.clone(),
            attachments: self.attachments.iter().map(|a| a.describe(&self.id)).collect(),
        }
    }

    pub(in crate::state) fn describe_modification(&self) -> Option<SimModification> {
        let m = self.modification.as_ref()?;
        let (state, progress, end_time, status_message) = match &m.phase {
            ModificationPhase::Modifying { .. } => ("modifying", 0, None, None),
            ModificationPhase::Optimizing { .. } => ("optimizing", 50, None, None),
            ModificationPhase::Completed { at } => ("completed", 100, Some(*at), None),
            ModificationPhase::Failed { at, message } => ("failed", 0, Some(*at), Some(message.clone())),
        };
        Some(SimModification {
            volume_id: self.id.clone(),
            state: state.to_owned(),
            status_message,
            original: m.original.clone(),
            target: m.target.clone(),
            progress,
            start_time: m.started,
            end_time,
        })
    }
}

impl Attachment {
    /// Starts the detachment. Returns whether the caller must disconnect the device.
    pub(in crate::state) fn start_detaching(&mut self, due: SystemTime) -> bool {
        self.phase = AttachmentPhase::Detaching { due, busy: false };
        self.stuck = false;
        match &self.backing {
            Device::Connected(device) | Device::RetryDisconnect(device, _) => {
                self.backing = Device::Disconnecting(device.clone());
                return true;
            }
            Device::RetryConnect(_) | Device::Vanished => self.backing = Device::Absent,
            // A device that is being connected is disconnected as soon as it is connected.
            Device::None | Device::Absent | Device::Connecting | Device::Disconnecting(_) => {}
        }
        false
    }

    pub(in crate::state) fn inject(&mut self, injection: &FaultInjection) {
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

    pub(in crate::state) fn stick(&mut self, how: Option<Stuck>) {
        if let (Some(Stuck::StuckDetaching | Stuck::Busy), AttachmentPhase::Detaching { busy, .. }) =
            (how, &mut self.phase)
        {
            *busy = how == Some(Stuck::Busy);
            self.stuck = true;
        }
    }

    /// Schedules the planned disturbance. Called when the device has appeared.
    pub(in crate::state) fn arrived(&mut self, now: SystemTime) {
        if let Some(Plan::After(after, what)) = self.disturbance {
            self.disturbance = Some(Plan::At(now + after, what));
        }
    }

    /// Returns whether a fault rule will make the device's I/O fail.
    pub(in crate::state) fn io_will_fail(&self) -> bool {
        matches!(self.disturbance, Some(Plan::After(_, Disturbance::IoErrors) | Plan::At(_, Disturbance::IoErrors)))
    }

    pub(in crate::state) fn disturbed_at(&self) -> Option<SystemTime> {
        match self.disturbance {
            Some(Plan::At(at, _)) => Some(at),
            Some(Plan::After(..)) | None => None,
        }
    }

    pub(in crate::state) fn new(instance: &Instance, device: &str, now: SystemTime, due: SystemTime) -> Self {
        let backing = if instance.local { Device::Absent } else { Device::None };
        let (instance_id, device) = (instance.id.clone(), device.to_owned());
        Self { instance_id, device, backing, ..Self::elsewhere(now, due) }
    }

    /// Returns a new attachment to a node outside of this account. The caller fills in the names of the instance and
    /// the device.
    pub(in crate::state) fn elsewhere(now: SystemTime, due: SystemTime) -> Self {
        Self {
            instance_id: String::new(),
            device: String::new(),
            phase: AttachmentPhase::Attaching { due },
            attach_time: now,
            delete_on_termination: false,
            card: None,
            backing: Device::None,
            associated_resource: None,
            stuck: false,
            forced: false,
            disturbance: None,
            device_due: None,
            linked: true,
        }
    }

    pub(in crate::state) fn state(&self) -> &'static str {
        match self.phase {
            AttachmentPhase::Attaching { .. } => "attaching",
            AttachmentPhase::Attached => "attached",
            AttachmentPhase::Detaching { busy: false, .. } => "detaching",
            AttachmentPhase::Detaching { busy: true, .. } => "busy",
        }
    }

    pub(in crate::state) fn describe(&self, volume: &str) -> SimAttachment {
        let loop_device = match &self.backing {
            Device::Connected(device) | Device::Disconnecting(device) | Device::RetryDisconnect(device, _) => {
                Some(device.clone()).filter(|d| !d.is_empty())
            }
            Device::None | Device::Absent | Device::Connecting | Device::RetryConnect(_) | Device::Vanished => None,
        };
        SimAttachment {
            volume_id: volume.to_owned(),
            instance_id: match self.associated_resource {
                Some(_) => String::new(),
                None => self.instance_id.clone(),
            },
            device: self.device.clone(),
            state: self.state().to_owned(),
            attach_time: self.attach_time,
            delete_on_termination: self.delete_on_termination,
            ebs_card_index: self.card,
            associated_resource: self.associated_resource.clone(),
            loop_device,
        }
    }
}

/// Returns how much of the time from `start` to `due` has elapsed, in percent, at most 99.
pub(in crate::state) fn percent(start: SystemTime, now: SystemTime, due: SystemTime) -> u32 {
    let passed = now.duration_since(start).unwrap_or_default().as_millis();
    let whole = due.duration_since(start).unwrap_or_default().as_millis();
    let percent = (passed * 100).checked_div(whole).unwrap_or(99);
    u32::try_from(percent.min(99)).unwrap_or(99)
}
