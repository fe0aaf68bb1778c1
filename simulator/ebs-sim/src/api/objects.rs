//! The objects that EC2 describes, as plain data with everything that EC2's XML shows.

use std::time::SystemTime;

use ebs_ec2::{Tags, VolumeType};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimVolume {
    /// `vol-…`
    pub id: String,
    /// One of `creating`, `available`, `in-use`, `deleting`, `deleted` or `error`.
    pub state: String,
    /// Size in GiB. It is the target size as soon as EC2 accepts a modification.
    pub size_gib: u32,
    pub volume_type: String,
    /// IOPS, for volume types that have them.
    pub iops: Option<u32>,
    /// Throughput in MiB/s; gp3 only.
    pub throughput: Option<u32>,
    pub zone: String,
    pub zone_id: String,
    pub encrypted: bool,
    /// ARN of the key, if the object is encrypted.
    pub kms_key_id: Option<String>,
    /// The snapshot from which the volume was created. Without one, EC2 shows an empty element.
    pub snapshot_id: Option<String>,
    pub source_volume_id: Option<String>,
    /// Initialization rate in MiB/s, if the client requested one.
    pub volume_initialization_rate: Option<u32>,
    /// Whether the volume can be attached to several instances.
    pub multi_attach: bool,
    pub outpost_arn: Option<String>,
    pub fast_restored: bool,
    pub created: SystemTime,
    pub tags: Tags,
    /// The attachments, in any state.
    pub attachments: Vec<SimAttachment>,
}

/// An attachment, as DescribeVolumes, AttachVolume and DetachVolume return it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SimAttachment {
    pub volume_id: String,
    /// The instance id. It is empty when a SageMaker cluster node has the volume.
    pub instance_id: String,
    /// The device name, such as `/dev/xvdaa`.
    pub device: String,
    /// One of `attaching`, `attached`, `detaching`, `detached` or `busy`.
    pub state: String,
    pub attach_time: SystemTime,
    pub delete_on_termination: bool,
    pub ebs_card_index: Option<u32>,
    /// ARN of the SageMaker cluster node that has the volume. If it is set, `instance_id` is empty.
    pub associated_resource: Option<String>,
    /// The loop device on this machine, such as `/dev/loop3`. EC2 has no such field; only `/state` shows it.
    pub loop_device: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimVolumeStatus {
    pub volume_id: String,
    pub zone: String,
    pub zone_id: String,
    pub outpost_arn: Option<String>,
    /// One of `ok`, `impaired` or `insufficient-data`.
    pub status: String,
    /// Details with the names `io-enabled`, `io-performance` and `initialization-state`.
    pub details: Vec<SimStatusDetail>,
    /// How much of the volume is initialized from its snapshot or source volume. `None` if it was created empty.
    pub initialization: Option<SimInitialization>,
}

/// `initializationStatusDetails` of DescribeVolumeStatus.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimInitialization {
    /// One of `default`, `provisioned-rate` or `volume-copy`.
    pub initialization_type: String,
    /// Percent.
    pub progress: u32,
    /// Estimated seconds until the volume is initialized; present only with a provisioned rate.
    pub estimated_seconds: Option<u64>,
}

/// A detail of a volume's status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimStatusDetail {
    pub name: String,
    pub status: String,
}

/// The properties that a modification changes.
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
    /// One of `modifying`, `optimizing`, `completed` or `failed`.
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
    /// One of `pending`, `completed` or `error`.
    pub state: String,
    /// EC2's explanation of the `error` state.
    pub status_message: Option<String>,
    /// Progress in percent. EC2 writes it as `100%`.
    pub progress: u32,
    pub start_time: SystemTime,
    pub completion_time: Option<SystemTime>,
    pub owner_id: String,
    /// The description, which may be empty.
    pub description: String,
    pub encrypted: bool,
    /// ARN of the key, if the object is encrypted.
    pub kms_key_id: Option<String>,
    pub outpost_arn: Option<String>,
    pub tags: Tags,
}

/// An entry of DescribeTags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimTag {
    pub resource_id: String,
    /// One of `volume`, `snapshot` or `instance`.
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
    /// One of `pending` (0), `running` (16), `shutting-down` (32), `terminated` (48), `stopping` (64) or `stopped`
    /// (80).
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
    /// Either `nitro` or `xen`.
    pub hypervisor: String,
    pub root_device: String,
    /// Block device mapping: attachments in any state, including the root volume.
    pub devices: Vec<SimAttachment>,
    /// ARN of the Outpost on which the instance runs.
    pub outpost_arn: Option<String>,
    /// Network interfaces, at least one.
    pub network_interfaces: Vec<SimNetworkInterface>,
    pub tags: Tags,
    /// Whether attachments of this instance appear as devices on this machine. EC2 has no such field.
    pub local: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimInstanceType {
    /// `m5.large`
    pub name: String,
    /// Either `nitro` or `xen`.
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
    /// The zone id, which is the same in all accounts.
    pub id: String,
    pub region: String,
    /// One of `availability-zone`, `local-zone` or `wavelength-zone`.
    pub zone_type: String,
    /// One of `available`, `unavailable`, `impaired` or `information`.
    pub state: String,
    /// One of `opt-in-not-required`, `opted-in` or `not-opted-in`.
    pub opt_in_status: String,
    /// Zone group. For availability zones it is the region.
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

/// Fast snapshot restore of one snapshot in one zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimFastRestore {
    pub snapshot_id: String,
    pub zone: String,
    pub zone_id: String,
    /// One of `enabling`, `optimizing`, `enabled`, `disabling` or `disabled`.
    pub state: String,
    /// EC2's reason for the last change, such as `Client.UserInitiated - Lifecycle state transition`.
    pub reason: String,
    pub owner_id: String,
    pub enabling_time: SystemTime,
    /// Absent until fast restore has reached this state.
    pub optimizing_time: Option<SystemTime>,
    /// Absent until fast restore has reached this state.
    pub enabled_time: Option<SystemTime>,
    /// Absent unless a client disabled fast restore.
    pub disabling_time: Option<SystemTime>,
    pub disabled_time: Option<SystemTime>,
}

/// Why EC2 could not enable or disable fast snapshot restore in a zone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimFastRestoreError {
    pub zone: String,
    pub zone_id: String,
    pub code: String,
    pub message: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct SimFastRestores {
    /// The snapshots and zones for which the call succeeded.
    pub successful: Vec<SimFastRestore>,
    /// The snapshots and zones for which the call failed.
    pub unsuccessful: Vec<(String, Vec<SimFastRestoreError>)>,
}

/// A lock of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SimSnapshotLock {
    pub snapshot_id: String,
    pub owner_id: String,
    /// One of `governance`, `compliance`, `compliance-cooloff` or `expired`.
    pub state: String,
    /// Days.
    pub duration_days: u32,
    /// Length of the cooling-off period in hours. The value remains after the period has ended.
    pub cool_off_hours: Option<u32>,
    /// When the cooling-off period ends.
    pub cool_off_expires: Option<SystemTime>,
    pub created: SystemTime,
    /// The start of the lock duration.
    pub duration_start: SystemTime,
    /// When the lock ends.
    pub expires: SystemTime,
}

/// All objects of the account. The control API's `/state` reports them without the locks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateView {
    /// Volumes ordered by id, including volumes that are being deleted. Attachments include their loop devices.
    pub volumes: Vec<SimVolume>,
    pub snapshots: Vec<SimSnapshot>,
    /// Locks of snapshots, including expired locks.
    pub locks: Vec<SimSnapshotLock>,
    /// Instances. This machine's own instance is first.
    pub instances: Vec<SimInstance>,
}
