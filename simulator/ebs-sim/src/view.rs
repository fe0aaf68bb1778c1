//! The state as the control API shows it.

use ebs_ec2::Tags;
use serde::{Deserialize, Serialize};

use crate::api::{SimAttachment, SimInstance, SimSnapshot, SimVolume, StateView};
use crate::wire::xml::timestamp;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct State {
    /// All volumes, including those in state `deleting`.
    pub volumes: Vec<Volume>,
    pub snapshots: Vec<Snapshot>,
    pub instances: Vec<Instance>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    pub id: String,
    /// `creating`, `available`, `in-use`, `deleting` or `deleted`.
    pub state: String,
    pub size_gib: u32,
    #[serde(rename = "type")]
    pub volume_type: String,
    pub iops: Option<u32>,
    pub throughput: Option<u32>,
    pub zone: String,
    pub encrypted: bool,
    /// ARN of the key, if the volume is encrypted.
    pub kms_key: Option<String>,
    pub snapshot: Option<String>,
    pub source_volume: Option<String>,
    pub created: String,
    pub tags: Tags,
    pub attachments: Vec<Attachment>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attachment {
    pub instance: String,
    /// The device name in EC2's block-device mapping.
    pub device: String,
    /// `attaching`, `attached`, `detaching`, `busy`.
    pub state: String,
    /// The loop device of the attachment, if it is on this machine.
    #[serde(rename = "loop")]
    pub loop_device: Option<String>,
    pub attach_time: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub id: String,
    /// `pending`, `completed` or `error`.
    pub state: String,
    pub volume: String,
    pub size_gib: u32,
    pub encrypted: bool,
    /// ARN of the key, if the snapshot is encrypted.
    pub kms_key: Option<String>,
    pub progress: u32,
    pub tags: Tags,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Instance {
    pub id: String,
    pub state: String,
    #[serde(rename = "type")]
    pub instance_type: String,
    pub zone: String,
    pub local: bool,
    pub devices: Vec<Device>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Device {
    pub device: String,
    pub volume: String,
    pub state: String,
}

impl State {
    pub fn volume(&self, id: &str) -> Option<&Volume> {
        self.volumes.iter().find(|volume| volume.id == id)
    }

    /// Returns the volumes that are neither deleted nor being deleted.
    pub fn live_volumes(&self) -> Vec<&Volume> {
        self.volumes.iter().filter(|volume| !volume.state.starts_with("delet")).collect()
    }

    /// Returns the live volumes with this name in the driver's tag.
    pub fn volumes_named(&self, name: &str) -> Vec<&Volume> {
        let named = |volume: &&Volume| volume.tags.get("CSIVolumeName").is_some_and(|tag| tag == name);
        self.live_volumes().into_iter().filter(named).collect()
    }
}

impl From<StateView> for State {
    fn from(state: StateView) -> Self {
        Self {
            volumes: state.volumes.into_iter().map(volume).collect(),
            snapshots: state.snapshots.into_iter().map(snapshot).collect(),
            instances: state.instances.into_iter().map(instance).collect(),
        }
    }
}

fn volume(v: SimVolume) -> Volume {
    Volume {
        id: v.id,
        state: v.state,
        size_gib: v.size_gib,
        volume_type: v.volume_type,
        iops: v.iops,
        throughput: v.throughput,
        zone: v.zone,
        encrypted: v.encrypted,
        kms_key: v.kms_key_id,
        snapshot: v.snapshot_id,
        source_volume: v.source_volume_id,
        created: timestamp(v.created),
        tags: v.tags,
        attachments: v.attachments.into_iter().map(attachment).collect(),
    }
}

fn attachment(a: SimAttachment) -> Attachment {
    let attach_time = timestamp(a.attach_time);
    Attachment { instance: a.instance_id, device: a.device, state: a.state, loop_device: a.loop_device, attach_time }
}

fn snapshot(s: SimSnapshot) -> Snapshot {
    Snapshot {
        id: s.id,
        state: s.state,
        volume: s.volume_id,
        size_gib: s.size_gib,
        encrypted: s.encrypted,
        kms_key: s.kms_key_id,
        progress: s.progress,
        tags: s.tags,
    }
}

fn instance(i: SimInstance) -> Instance {
    let device = |d: SimAttachment| Device { device: d.device, volume: d.volume_id, state: d.state };
    let devices = i.devices.into_iter().map(device).collect();
    Instance { id: i.id, state: i.state, instance_type: i.instance_type, zone: i.zone, local: i.local, devices }
}
