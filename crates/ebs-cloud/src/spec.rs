//! The parameters and results of the operations.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::SystemTime;

use ebs_ec2::{
    DeviceName, DriverName, Gib, IopsRequest, LockSnapshot, SnapshotId, Tags, VolumeId, VolumeType, ZoneId, ZoneName,
};

/// The configuration of the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudConfig {
    /// The name of the driver. The managed tag and the IOPS tags derive from it.
    pub driver: DriverName,
    /// True: one describe covers several objects. False: each object has its own describe, sent at once.
    pub batching: bool,
    /// The current time of day, for tests with a paused clock. `None`: the clock of the machine.
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
    /// The least size, never 0. `None`: not specified.
    pub required: Option<Gib>,
    /// The size without a required one, within the range of source, type and limit.
    pub fallback: Gib,
    /// The largest size, never 0. `None`: no limit.
    pub limit: Option<Gib>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// An empty volume.
    Blank,
    Snapshot(SnapshotId),
    /// A copy of a volume, in its zone.
    Volume(VolumeId),
}

/// A zone or Outpost that a request allows. Without zone and zone id, the term allows every zone.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Term {
    /// The zone name, which wins over the id.
    pub zone: Option<ZoneName>,
    pub zone_id: Option<ZoneId>,
    /// The ARN of an Outpost in the zone.
    pub outpost_arn: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Preferred first.
    pub preferred: Vec<Term>,
    /// All allowed terms. Empty: every zone.
    pub requisite: Vec<Term>,
}

/// The parameters of CreateVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSpec {
    /// The orchestrator's name. The client token derives from it, and the tag `CSIVolumeName` has it.
    pub name: String,
    pub capacity: CapacityRequest,
    pub volume_type: VolumeType,
    pub iops: IopsRequest,
    /// Raise IOPS below the minimum of the type to the minimum.
    pub raise_iops_to_min: bool,
    /// MiB/s. `None`: EC2's default.
    pub throughput: Option<NonZeroU32>,
    /// Encrypt the volume. A key implies it.
    pub encrypted: bool,
    /// The ARN, id or alias of a KMS key.
    pub kms_key_id: Option<String>,
    pub source: Source,
    pub topology: Topology,
    /// Several instances may attach the volume. io2 only.
    pub multi_attach: bool,
    /// MiB/s for the initialization of a volume from a snapshot.
    pub initialization_rate: Option<NonZeroU32>,
    /// All tags, including name and ownership tags.
    pub tags: Tags,
}

/// The parameters of ControllerExpandVolume and ControllerModifyVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModifySpec {
    /// The least size.
    pub size: Option<Gib>,
    pub volume_type: Option<VolumeType>,
    /// IOPS, which are brought within the limits of the type.
    pub iops: IopsRequest,
    /// Whether the ratio in the volume's tags may raise its IOPS. `None`: a tag of the volume decides.
    pub auto_iops: Option<bool>,
    /// MiB/s. `None`: unchanged.
    pub throughput: Option<NonZeroU32>,
    pub tags: Tags,
    /// Keys of tags to delete. A key that is also in `tags` is set.
    pub deleted_tags: BTreeSet<String>,
}

impl Default for ModifySpec {
    fn default() -> Self {
        Self {
            size: None,
            volume_type: None,
            iops: IopsRequest::Default,
            auto_iops: None,
            throughput: None,
            tags: Tags::new(),
            deleted_tags: BTreeSet::new(),
        }
    }
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
    /// The orchestrator's name. The tag `CSIVolumeSnapshotName` has it.
    pub name: String,
    pub volume: VolumeId,
    pub outpost_arn: Option<String>,
    /// All tags, including name and ownership tags.
    pub tags: Tags,
}

/// The features of a snapshot.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotFeatures {
    /// Zones with fast restores of volumes.
    pub fast_restore_zones: Vec<ZoneName>,
    pub lock: Option<Lock>,
}

/// A valid combination of lock parameters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub mode: LockMode,
    pub end: LockEnd,
}

/// Which users may lift a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockMode {
    /// Users with the IAM permission.
    Governance,
    /// No user, from the end of the cooling-off period (1 to 72 hours) or at once.
    Compliance { cool_off_hours: Option<u32> },
}

/// When a lock ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockEnd {
    /// Days (1 to 36,500) after the completion of the snapshot.
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
    /// The device name that EC2 reports, even if it is not the requested one.
    pub device: DeviceName,
    /// When it was attached, by EC2's clock.
    pub attach_time: Option<SystemTime>,
    /// The volume as EC2 described it while attached.
    pub volume: ebs_ec2::Volume,
}
