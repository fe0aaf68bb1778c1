//! The objects that EC2 describes, as plain data with everything that their XML shows.

use std::time::SystemTime;

use ebs_ec2::{Tags, VolumeType};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimVolume {
    /// `vol-…`
    pub id: String,
    /// `creating`, `available`, `in-use`, `deleting`, `deleted`, `error`.
    pub state: String,
    /// Size, which is the target size as soon as a modification is accepted.
    pub size_gib: u32,
    pub volume_type: String,
    /// IOPS, where the type has them.
    pub iops: Option<u32>,
    /// MiB/s, gp3 only.
    pub throughput: Option<u32>,
    pub zone: String,
    pub zone_id: String,
    pub encrypted: bool,
    /// ARN of the key, when encrypted.
    pub kms_key_id: Option<String>,
    /// The snapshot from which it was created. Without one, EC2 shows an empty element.
    pub snapshot_id: Option<String>,
    pub source_volume_id: Option<String>,
    /// MiB/s of initialisation, when asked for.
    pub volume_initialization_rate: Option<u32>,
    /// Several instances may attach it.
    pub multi_attach: bool,
    pub outpost_arn: Option<String>,
    pub fast_restored: bool,
    pub created: SystemTime,
    pub tags: Tags,
    /// Attachments, in any state.
    pub attachments: Vec<SimAttachment>,
}

/// An attachment, as a volume lists it and as attach and detach answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimAttachment {
    pub volume_id: String,
    /// The instance; empty when it is attached to a node of a SageMaker cluster.
    pub instance_id: String,
    /// The device name, `/dev/xvdaa`.
    pub device: String,
    /// `attaching`, `attached`, `detaching`, `detached`, `busy`.
    pub state: String,
    pub attach_time: SystemTime,
    pub delete_on_termination: bool,
    pub ebs_card_index: Option<u32>,
    /// ARN of the node of a SageMaker cluster that has it; the instance is empty then.
    pub associated_resource: Option<String>,
    /// Not EC2's: the loop device (`/dev/loop3`) behind it on this machine, for `/state` only.
    pub loop_device: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimVolumeStatus {
    pub volume_id: String,
    pub zone: String,
    pub zone_id: String,
    pub outpost_arn: Option<String>,
    /// `ok`, `impaired`, `insufficient-data`.
    pub status: String,
    /// `io-enabled`, `io-performance`, `initialization-state`.
    pub details: Vec<SimStatusDetail>,
    /// How much of it is initialized from its snapshot or source. `None`: it was created blank.
    pub initialization: Option<SimInitialization>,
}

/// `initializationStatusDetails` of DescribeVolumeStatus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimInitialization {
    /// `default`, `provisioned-rate`, `volume-copy`.
    pub initialization_type: String,
    /// Percent.
    pub progress: u32,
    /// Seconds; only for a provisioned rate.
    pub estimated_seconds: Option<u64>,
}

/// A detail of a volume's status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimStatusDetail {
    pub name: String,
    pub status: String,
}

/// What a modification changes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimProperties {
    pub size_gib: u32,
    pub volume_type: VolumeType,
    pub iops: Option<u32>,
    pub throughput: Option<u32>,
    pub multi_attach: bool,
}

/// The latest modification of a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimModification {
    pub volume_id: String,
    /// `modifying`, `optimizing`, `completed`, `failed`.
    pub state: String,
    pub status_message: Option<String>,
    pub original: SimProperties,
    pub target: SimProperties,
    /// Percent.
    pub progress: u32,
    pub start_time: SystemTime,
    pub end_time: Option<SystemTime>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimSnapshot {
    /// `snap-…`
    pub id: String,
    pub volume_id: String,
    pub size_gib: u32,
    /// `pending`, `completed`, `error`.
    pub state: String,
    /// EC2's word on an error.
    pub status_message: Option<String>,
    /// Percent; EC2 writes `100%`.
    pub progress: u32,
    pub start_time: SystemTime,
    pub completion_time: Option<SystemTime>,
    pub owner_id: String,
    /// Description, maybe empty.
    pub description: String,
    pub encrypted: bool,
    /// ARN of the key, when encrypted.
    pub kms_key_id: Option<String>,
    pub outpost_arn: Option<String>,
    pub tags: Tags,
}

/// A row of DescribeTags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimTag {
    pub resource_id: String,
    /// `volume`, `snapshot`, `instance`.
    pub resource_type: String,
    pub key: String,
    pub value: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimNetworkInterface {
    pub id: String,
    pub mac_address: String,
    pub private_ip: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimInstance {
    /// `i-…`
    pub id: String,
    /// `pending` (0), `running` (16), `shutting-down` (32), `terminated` (48), `stopping` (64), `stopped` (80).
    pub state: String,
    /// EC2's number for the state.
    pub state_code: u16,
    pub instance_type: String,
    pub zone: String,
    pub zone_id: String,
    pub reservation_id: String,
    pub owner_id: String,
    pub image_id: String,
    pub private_dns_name: String,
    pub launch_time: SystemTime,
    /// `nitro` or `xen`.
    pub hypervisor: String,
    pub root_device: String,
    /// Block-device mapping, attachments in any state, root included.
    pub devices: Vec<SimAttachment>,
    /// ARN of its Outpost.
    pub outpost_arn: Option<String>,
    /// Network interfaces, at least one.
    pub network_interfaces: Vec<SimNetworkInterface>,
    pub tags: Tags,
    /// Not EC2's: attachments of this instance appear as devices on this machine.
    pub local: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimInstanceType {
    /// `m5.large`
    pub name: String,
    /// `nitro` or `xen`.
    pub hypervisor: String,
    /// `EbsInfo.MaximumEbsCards`, at least 1.
    pub maximum_ebs_cards: u32,
    /// `EbsInfo.MaximumEbsAttachments`.
    pub maximum_ebs_attachments: u32,
    /// `EbsInfo.AttachmentLimitType`: `shared` or `dedicated`.
    pub attachment_limit_type: String,
    /// `EbsInfo.NvmeSupport`: `required` or `unsupported`.
    pub nvme_support: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimZone {
    pub name: String,
    /// Id, the same in all accounts.
    pub id: String,
    pub region: String,
    /// `availability-zone`, `local-zone`, `wavelength-zone`.
    pub zone_type: String,
    /// `available`, `unavailable`, `impaired`, `information`.
    pub state: String,
    /// `opt-in-not-required`, `opted-in`, `not-opted-in`.
    pub opt_in_status: String,
    /// Group, the region itself for availability zones.
    pub group_name: String,
    pub network_border_group: String,
}

/// A change of an instance's state.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimStateChange {
    pub instance_id: String,
    pub previous_state: String,
    pub previous_code: u16,
    pub current_state: String,
    pub current_code: u16,
}

/// Fast restores of a snapshot in a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimFastRestore {
    pub snapshot_id: String,
    pub zone: String,
    pub zone_id: String,
    /// `enabling`, `optimizing`, `enabled`, `disabling`, `disabled`.
    pub state: String,
    /// EC2's word on the last change, `Client.UserInitiated - Lifecycle state transition`.
    pub reason: String,
    pub owner_id: String,
    pub enabling_time: SystemTime,
    /// Absent before.
    pub optimizing_time: Option<SystemTime>,
    /// Absent before.
    pub enabled_time: Option<SystemTime>,
    /// Absent unless it was disabled.
    pub disabling_time: Option<SystemTime>,
    pub disabled_time: Option<SystemTime>,
}

/// Why fast restores could not be enabled or disabled in a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimFastRestoreError {
    pub zone: String,
    pub zone_id: String,
    pub code: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SimFastRestores {
    /// By snapshot and zone.
    pub successful: Vec<SimFastRestore>,
    /// Snapshots with the zones in which it failed.
    pub unsuccessful: Vec<(String, Vec<SimFastRestoreError>)>,
}

/// A lock of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimSnapshotLock {
    pub snapshot_id: String,
    pub owner_id: String,
    /// `governance`, `compliance`, `compliance-cooloff`, `expired`.
    pub state: String,
    /// Days.
    pub duration_days: u32,
    /// Hours, for a lock that has or had a cooling-off period.
    pub cool_off_hours: Option<u32>,
    /// When the cooling-off period ends.
    pub cool_off_expires: Option<SystemTime>,
    pub created: SystemTime,
    /// From when the duration counts.
    pub duration_start: SystemTime,
    /// When the lock ends.
    pub expires: SystemTime,
}

/// All objects. The control API's `/state` reports them without the locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateView {
    /// Volumes by id, including volumes that are being deleted. Attachments have their loop device.
    pub volumes: Vec<SimVolume>,
    pub snapshots: Vec<SimSnapshot>,
    /// Locks of snapshots, also expired ones.
    pub locks: Vec<SimSnapshotLock>,
    /// Instances, with the machine's own first.
    pub instances: Vec<SimInstance>,
}
