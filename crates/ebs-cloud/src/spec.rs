//! What is asked for, and what is given back: the vocabulary of the operations.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::time::SystemTime;

use ebs_ec2::LockSnapshot;
use ebs_types::{DeviceName, DriverName, Gib, IopsRequest, SnapshotId, Tags, VolumeId, VolumeType, ZoneId, ZoneName};

/// What does not change while the process lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CloudConfig {
    /// The driver's name; the managed tag and the IOPS tags derive from it.
    pub driver: DriverName,
    /// Questions about several objects travel in one call; false: each alone, at once.
    pub batching: bool,
    /// The time of day now; `None`: that of the machine. For tests whose time is not real.
    pub time_of_day: Option<SystemTime>,
}

impl CloudConfig {
    /// For a driver of that name; the rest as it is by default.
    pub fn new(driver: DriverName) -> Self {
        Self { driver, batching: true, time_of_day: None }
    }
}

/// Whether the operation made the object or found it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub enum Ensured<T> {
    /// EC2 accepted the creation. A repeat of an accepted creation (same client token) cannot be told from it.
    Created(T),
    /// It was there before and is what was asked for.
    Existing(T),
}

impl<T> Ensured<T> {
    pub fn into_inner(self) -> T {
        match self {
            Self::Created(object) | Self::Existing(object) => object,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CapacityRequest {
    /// At least this, never 0; `None` leaves it open.
    pub required: Option<Gib>,
    /// What to take when it is left open, as far as source, type and limit allow.
    pub fallback: Gib,
    /// At most this, never 0; `None`: no limit.
    pub limit: Option<Gib>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// Nothing: a volume of zeros.
    Blank,
    Snapshot(SnapshotId),
    /// A copy of a volume, in its zone.
    Volume(VolumeId),
}

/// One place that a request allows. Without zone and id it says nothing about the place.
#[derive(Debug, Clone, PartialEq, Eq, Default, PartialOrd, Ord)]
pub struct Term {
    /// By name; wins over the id.
    pub zone: Option<ZoneName>,
    pub zone_id: Option<ZoneId>,
    /// An Outpost in that zone, by ARN.
    pub outpost_arn: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Topology {
    /// Better first.
    pub preferred: Vec<Term>,
    /// All that is allowed; empty: anywhere.
    pub requisite: Vec<Term>,
}

/// A volume that is to exist: the typed plan of CreateVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSpec {
    /// The orchestrator's name; the client token derives from it and the tag `CSIVolumeName` carries it.
    pub name: String,
    pub capacity: CapacityRequest,
    pub volume_type: VolumeType,
    pub iops: IopsRequest,
    /// Lift IOPS to the minimum of the type when they are below.
    pub raise_iops_to_min: bool,
    /// MiB/s; `None`: EC2's default.
    pub throughput: Option<NonZeroU32>,
    /// Encrypt it. With a key it is encrypted in any case.
    pub encrypted: bool,
    /// KMS key by ARN, id or alias.
    pub kms_key_id: Option<String>,
    pub source: Source,
    pub topology: Topology,
    /// Several instances may attach it; io2 only.
    pub multi_attach: bool,
    /// MiB/s at which a volume from a snapshot is initialised.
    pub initialization_rate: Option<NonZeroU32>,
    /// All its tags, name and ownership tags included.
    pub tags: Tags,
}

/// What a volume is to become: the typed plan of ControllerExpandVolume and ControllerModifyVolume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModifySpec {
    /// At least this size.
    pub size: Option<Gib>,
    pub volume_type: Option<VolumeType>,
    /// IOPS; those that the type cannot have are brought within its limits.
    pub iops: IopsRequest,
    /// Whether the ratio in the volume's tags may raise its IOPS now; `None`: as its tags say.
    pub auto_iops: Option<bool>,
    /// MiB/s; `None`: as it is.
    pub throughput: Option<NonZeroU32>,
    pub tags: Tags,
    /// Keys of tags to delete; a key in both ends set.
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

    /// True when more than tags is asked for.
    pub fn asks_for_properties(&self) -> bool {
        self.size.is_some()
            || self.volume_type.is_some()
            || self.throughput.is_some()
            || self.iops != IopsRequest::Default
    }
}

/// A snapshot that is to exist: the typed plan of CreateSnapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotSpec {
    /// The orchestrator's name; the tag `CSIVolumeSnapshotName` carries it.
    pub name: String,
    pub volume: VolumeId,
    /// Kept on this Outpost, by ARN.
    pub outpost_arn: Option<String>,
    /// All its tags, name and ownership tags included.
    pub tags: Tags,
}

/// What a snapshot is to have besides its data.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotFeatures {
    /// Zones in which volumes are to be restored fast.
    pub fast_restore_zones: Vec<ZoneName>,
    pub lock: Option<Lock>,
}

/// A lock that can be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lock {
    pub mode: LockMode,
    pub end: LockEnd,
}

/// Who may lift a lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockMode {
    /// Whoever has the right to.
    Governance,
    /// Nobody, after that many hours (1 to 72) or at once.
    Compliance { cool_off_hours: Option<u32> },
}

/// When a lock ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockEnd {
    /// So many days (1 to 36,500) after the snapshot is completed.
    Days(u32),
    At(SystemTime),
}

impl Lock {
    /// The call that locks that snapshot so.
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
    /// The device name that EC2 reports, whatever was asked for.
    pub device: DeviceName,
    /// When it was attached, by EC2's clock.
    pub attach_time: Option<SystemTime>,
    /// The volume as described while attached.
    pub volume: ebs_ec2::Volume,
}
