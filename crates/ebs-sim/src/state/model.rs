//! The stored form of volumes, attachments, modifications and snapshots, and their descriptions.

use std::time::SystemTime;

use ebs_types::{Tags, VolumeType};
use serde::{Deserialize, Serialize};

use crate::api::{SimAttachment, SimModification, SimProperties, SimSnapshot, SimVolume};

use super::account::Account;
use super::fast_restore::FastRestore;
use super::instances::Instance;
use super::locks::Lock;
use super::status::Filling;

/// The phase of a volume. Its attachments show whether it is in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum VolumePhase {
    /// Settles when `due` has passed and its data is in place.
    Creating {
        due: SystemTime,
        data_ready: bool,
    },
    Ready,
    /// Gone when `due` has passed.
    Deleting {
        due: SystemTime,
    },
    /// Its data could not be created.
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Volume {
    pub(super) id: String,
    pub(super) phase: VolumePhase,
    pub(super) size_gib: u32,
    pub(super) volume_type: VolumeType,
    pub(super) iops: Option<u32>,
    pub(super) throughput: Option<u32>,
    pub(super) zone: String,
    pub(super) zone_id: String,
    pub(super) encrypted: bool,
    pub(super) kms_key_id: Option<String>,
    /// Its key is unusable: it disappears instead of becoming available.
    pub(super) vanishes: bool,
    pub(super) snapshot_id: Option<String>,
    pub(super) source_volume_id: Option<String>,
    pub(super) initialization_rate: Option<u32>,
    pub(super) fast_restored: bool,
    pub(super) multi_attach: bool,
    pub(super) created: SystemTime,
    pub(super) tags: Tags,
    pub(super) attachments: Vec<Attachment>,
    pub(super) modification: Option<Modification>,
    /// Times of the modifications of the last day.
    pub(super) modified_at: Vec<SystemTime>,
    pub(super) last_snapshot: Option<SystemTime>,
    /// The initialization from its source.
    pub(super) filling: Option<Filling>,
    pub(super) outpost_arn: Option<String>,
    pub(super) impaired: bool,
}

/// The phase of an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum AttachmentPhase {
    /// Settles when `due` has passed and the device exists.
    Attaching {
        due: SystemTime,
    },
    Attached,
    /// Gone when `due` has passed and the device is gone; `busy` while the device is in use.
    Detaching {
        due: SystemTime,
        busy: bool,
    },
}

/// The device behind an attachment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Device {
    /// This attachment never has one: it belongs to another instance or a root volume.
    None,
    Absent,
    /// It is being connected.
    Connecting,
    Connected(String),
    /// It is being disconnected.
    Disconnecting(String),
    /// The last attempt failed. The next one is at this time.
    RetryConnect(SystemTime),
    /// It was in use. The next attempt is at this time.
    RetryDisconnect(String, SystemTime),
    /// It has disappeared by itself.
    Vanished,
}

/// An attachment of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Attachment {
    pub(super) instance_id: String,
    pub(super) device: String,
    pub(super) phase: AttachmentPhase,
    pub(super) attach_time: SystemTime,
    pub(super) delete_on_termination: bool,
    pub(super) card: Option<u32>,
    pub(super) backing: Device,
    /// The SageMaker cluster node of the attachment. Only SageMaker knows `instance_id` then.
    pub(super) associated_resource: Option<String>,
    /// Time alone does not change it.
    pub(super) stuck: bool,
    /// It is being detached by force.
    pub(super) forced: bool,
    /// The planned disturbance of the device.
    pub(super) disturbance: Option<super::fault_injection::Plan>,
    /// Earliest time of the device.
    pub(super) device_due: Option<SystemTime>,
    /// The device gets its link.
    pub(super) linked: bool,
}

/// The phase of a modification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum ModificationPhase {
    /// Settles when `due` has passed and the data has grown.
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

/// The latest modification of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Modification {
    pub(super) phase: ModificationPhase,
    pub(super) original: SimProperties,
    pub(super) target: SimProperties,
    pub(super) started: SystemTime,
}

/// The phase of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum SnapshotPhase {
    /// Settles when `due` has passed and the data is copied.
    Pending {
        due: SystemTime,
        copied: bool,
    },
    Completed {
        at: SystemTime,
    },
    Error {
        message: String,
    },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Snapshot {
    pub(super) id: String,
    pub(super) volume_id: String,
    pub(super) size_gib: u32,
    pub(super) phase: SnapshotPhase,
    pub(super) started: SystemTime,
    pub(super) description: String,
    pub(super) encrypted: bool,
    pub(super) kms_key_id: Option<String>,
    pub(super) tags: Tags,
    pub(super) outpost_arn: Option<String>,
    pub(super) lock: Option<Lock>,
    pub(super) fast_restores: Vec<FastRestore>,
}

impl Volume {
    /// Returns EC2's name of its state.
    pub(super) fn state(&self) -> &'static str {
        match self.phase {
            VolumePhase::Creating { .. } => "creating",
            VolumePhase::Ready if self.attachments.is_empty() => "available",
            VolumePhase::Ready => "in-use",
            VolumePhase::Deleting { .. } => "deleting",
            VolumePhase::Error => "error",
        }
    }

    pub(super) fn properties(&self) -> SimProperties {
        SimProperties {
            size_gib: self.size_gib,
            volume_type: self.volume_type.clone(),
            iops: self.iops,
            throughput: self.throughput,
            multi_attach: self.multi_attach,
        }
    }

    pub(super) fn attachment_to(&mut self, instance: &str) -> Option<&mut Attachment> {
        self.attachments.iter_mut().find(|a| a.instance_id == instance)
    }

    pub(super) fn describe(&self) -> SimVolume {
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

    pub(super) fn describe_modification(&self) -> Option<SimModification> {
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
    /// Returns a new attachment in state `attaching`.
    pub(super) fn new(instance: &Instance, device: &str, now: SystemTime, due: SystemTime) -> Self {
        let backing = if instance.local { Device::Absent } else { Device::None };
        let (instance_id, device) = (instance.id.clone(), device.to_owned());
        Self { instance_id, device, backing, ..Self::elsewhere(now, due) }
    }

    /// Returns a new attachment to a node outside of this account. The caller fills in both names.
    pub(super) fn elsewhere(now: SystemTime, due: SystemTime) -> Self {
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

    /// Returns EC2's name of its state.
    pub(super) fn state(&self) -> &'static str {
        match self.phase {
            AttachmentPhase::Attaching { .. } => "attaching",
            AttachmentPhase::Attached => "attached",
            AttachmentPhase::Detaching { busy: false, .. } => "detaching",
            AttachmentPhase::Detaching { busy: true, .. } => "busy",
        }
    }

    pub(super) fn describe(&self, volume: &str) -> SimAttachment {
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

impl Snapshot {
    /// Returns EC2's name of its state.
    pub(super) fn state(&self) -> &'static str {
        match self.phase {
            SnapshotPhase::Pending { .. } => "pending",
            SnapshotPhase::Completed { .. } => "completed",
            SnapshotPhase::Error { .. } => "error",
        }
    }

    pub(super) fn describe(&self, now: SystemTime, account: &Account) -> SimSnapshot {
        let (progress, completion_time, status_message) = match &self.phase {
            SnapshotPhase::Pending { due, .. } => (percent(self.started, now, *due), None, None),
            SnapshotPhase::Completed { at } => (100, Some(*at), None),
            SnapshotPhase::Error { message } => (0, None, Some(message.clone())),
        };
        SimSnapshot {
            id: self.id.clone(),
            volume_id: self.volume_id.clone(),
            size_gib: self.size_gib,
            state: self.state().to_owned(),
            status_message,
            progress,
            start_time: self.started,
            completion_time,
            owner_id: account.id.clone(),
            description: self.description.clone(),
            encrypted: self.encrypted,
            kms_key_id: self.kms_key_id.clone(),
            outpost_arn: self.outpost_arn.clone(),
            tags: self.tags.clone(),
        }
    }
}

/// Returns the elapsed percentage of the time from `start` to `due`, at most 99.
pub(super) fn percent(start: SystemTime, now: SystemTime, due: SystemTime) -> u32 {
    let passed = now.duration_since(start).unwrap_or_default().as_millis();
    let whole = due.duration_since(start).unwrap_or_default().as_millis();
    let percent = (passed * 100).checked_div(whole).unwrap_or(99);
    u32::try_from(percent.min(99)).unwrap_or(99)
}
