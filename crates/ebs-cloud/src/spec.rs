//! The parameters and results of the operations.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::SystemTime;

use ebs_ec2::{
    DeviceName, DriverName, Gib, IopsRequest, LockSnapshot, SnapshotId, Tags, VolumeId, VolumeType, ZoneId, ZoneName,
};

/// The policy's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudConfig {
    /// The name of the driver, from which the managed tag and the IOPS tags derive.
    pub driver: DriverName,
    /// If true, one describe covers several objects. If false, each object has its own describe, sent immediately.
    pub batching: bool,
    /// The current time of day, for tests with a paused clock. If `None`, the driver uses the machine's clock.
    pub time_of_day: Option<SystemTime>,
}

impl CloudConfig {
    /// Returns the default configuration for a driver of that name.
    pub fn new(driver: DriverName) -> Self {
        Self { driver, batching: true, time_of_day: None }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityRequest {
    /// The smallest allowed size, never 0. `None` if the request does not name one.
    pub required: Option<Gib>,
    /// The size to use when the request names no required size. It is adjusted to the source, the type and the limit.
    pub fallback: Gib,
    /// The largest allowed size, never 0. `None` means no limit.
    pub limit: Option<Gib>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An empty volume.
    Blank,
    Snapshot(SnapshotId),
    /// A copy of the volume, in the same zone.
    Volume(VolumeId),
}

/// A zone or Outpost that a request allows. A term with neither zone nor zone id allows every zone.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Term {
    /// The zone name. If it is set, the id is ignored.
    pub zone: Option<ZoneName>,
    pub zone_id: Option<ZoneId>,
    /// The ARN of an Outpost in the zone.
    pub outpost_arn: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// The terms to try first, in this order.
    pub preferred: Vec<Term>,
    /// All allowed terms. If empty, every zone is allowed.
    pub requisite: Vec<Term>,
}

/// The parameters of CreateVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSpec {
    /// The name that the orchestrator chose, from which the client token and the tag `CSIVolumeName` derive.
    pub name: String,
    pub capacity: CapacityRequest,
    pub volume_type: VolumeType,
    pub iops: IopsRequest,
    /// Whether to raise IOPS that are below the type's minimum to that minimum.
    pub raise_iops_to_min: bool,
    /// Throughput in MiB/s. If `None`, EC2 uses its default.
    pub throughput: Option<NonZeroU32>,
    /// Whether to encrypt the volume. A KMS key implies encryption.
    pub encrypted: bool,
    /// The ARN, id or alias of a KMS key.
    pub kms_key_id: Option<String>,
    pub source: Source,
    pub topology: Topology,
    /// Whether several instances may attach the volume. Only io2 supports it.
    pub multi_attach: bool,
    /// The rate in MiB/s at which EC2 initializes the volume from its snapshot.
    pub initialization_rate: Option<NonZeroU32>,
    /// All tags, including the name tag and the ownership tags.
    pub tags: Tags,
}

/// The parameters of ControllerExpandVolume and ControllerModifyVolume.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ModifySpec {
    /// The smallest size that the volume must have.
    pub size: Option<Gib>,
    pub volume_type: Option<VolumeType>,
    /// The requested IOPS, which the driver adjusts to the limits of the type.
    pub iops: IopsRequest,
    /// Whether the IOPS-per-GiB ratio in the volume's tags may raise its IOPS. If `None`, a tag of the volume decides.
    pub auto_iops: Option<bool>,
    /// Throughput in MiB/s. `None` leaves it unchanged.
    pub throughput: Option<NonZeroU32>,
    pub tags: Tags,
    /// Keys of tags to delete. A key that is also in `tags` is set instead.
    pub deleted_tags: BTreeSet<String>,
}

impl ModifySpec {
    pub fn size(size: Gib) -> Self {
        Self { size: Some(size), ..Self::default() }
    }

    /// Returns true if the request changes more than tags.
    pub fn asks_for_properties(&self) -> bool {
        self.size.is_some()
            || self.volume_type.is_some()
            || self.throughput.is_some()
            || self.iops != IopsRequest::Default
    }
}

/// The parameters of CreateSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// The name that the orchestrator chose. The driver stores it in the tag `CSIVolumeSnapshotName`.
    pub name: String,
    pub volume: VolumeId,
    pub outpost_arn: Option<String>,
    /// All tags, including the name tag and the ownership tags.
    pub tags: Tags,
}

/// The optional features of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotFeatures {
    /// The zones in which to enable fast restores.
    pub fast_restore_zones: Vec<ZoneName>,
    pub lock: Option<Lock>,
}

/// A valid combination of a lock's parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub mode: LockMode,
    pub end: LockEnd,
}

/// Which users may remove a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockMode {
    /// Users with the IAM permission can remove the lock.
    Governance,
    /// No user can remove the lock once its cooling-off period (1 to 72 hours), if any, is over.
    Compliance { cool_off_hours: Option<u32> },
}

/// When a lock ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockEnd {
    /// The number of days (1 to 36,500) after the snapshot's completion.
    Days(u32),
    At(SystemTime),
}

impl Lock {
    pub(crate) fn of(&self, snapshot: &SnapshotId) -> LockSnapshot {
        let (mode, cool_off_hours) = match self.mode {
            LockMode::Governance => ("governance", None),
            LockMode::Compliance { cool_off_hours } => ("compliance", cool_off_hours),
        };
        let (duration_days, expiration) = match self.end {
            LockEnd::Days(days) => (Some(days), None),
            LockEnd::At(at) => (None, Some(at)),
        };
        let mode = Some(mode.to_owned());
        LockSnapshot { snapshot: snapshot.clone(), mode, cool_off_hours, expiration, duration_days }
    }
}

/// An attachment that EC2 reports as `attached`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    /// The device name that EC2 reports, even if another one was requested.
    pub device: DeviceName,
    /// When EC2 attached the volume, by EC2's clock.
    pub attach_time: Option<SystemTime>,
    /// The volume, as described by EC2 after the attachment.
    pub volume: ebs_ec2::Volume,
}
