//! Snapshots.

use std::time::SystemTime;

use crate::{Gib, SnapshotId, Tags, VolumeId, ZoneName};

use crate::{Page, PageRequest, Result};

/// The state of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SnapshotState {
    Pending,
    Completed,
    Error,
    /// A state that this version does not know. Never treated as completed.
    Other(String),
}

/// A snapshot as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub id: SnapshotId,
    /// The source volume. EC2 reports `vol-ffffffff` for copies and imports.
    pub source_volume: Option<VolumeId>,
    pub size: Gib,
    pub state: SnapshotState,
    pub status_message: Option<String>,
    pub started: Option<SystemTime>,
    pub encrypted: bool,
    pub owner: Option<String>,
    pub outpost_arn: Option<String>,
    pub tags: Tags,
}

/// The parameters of CreateSnapshot, which has no idempotency token in EC2.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSnapshot {
    pub volume: VolumeId,
    pub description: String,
    pub outpost_arn: Option<String>,
    pub tags: Tags,
}

/// The result of EnableFastSnapshotRestores, by zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FastRestores {
    /// Zones in which fast restores are being enabled, or were enabled before.
    pub enabled: Vec<ZoneName>,
    pub failures: Vec<FastRestoreFailure>,
}

/// Why EC2 cannot enable fast restores in a zone. EC2 reports it inside a successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastRestoreFailure {
    /// The zone as EC2 names it. `None` if EC2 names no zone.
    pub zone: Option<String>,
    pub code: Option<String>,
    pub message: String,
}

/// The parameters of LockSnapshot. `None` is not sent, and EC2 checks the combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSnapshot {
    pub snapshot: SnapshotId,
    /// `governance` or `compliance`, as the user wrote it.
    pub mode: Option<String>,
    /// Hours in which a compliance lock can still be changed (EC2: 1 to 72).
    pub cool_off_hours: Option<u32>,
    pub expiration: Option<SystemTime>,
    /// The duration of the lock in days (EC2: 1 to 36500).
    pub duration_days: Option<u32>,
}

/// The state of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LockState {
    /// In governance mode: users with the permission can change or lift it.
    Governance,
    /// In compliance mode within the cooling-off period: like governance mode.
    ComplianceCoolOff,
    /// In compliance mode: it can only be extended.
    Compliance,
    /// The lock has expired.
    Expired,
    /// A state that this version does not know. Never treated as locked.
    Other(String),
}

/// The lock of a snapshot as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLock {
    pub snapshot: SnapshotId,
    pub state: LockState,
    pub cool_off_hours: Option<u32>,
    /// The duration in days, from `counts_from`.
    pub duration_days: Option<u32>,
    /// The start of the duration. For a pending snapshot this is its completion.
    pub counts_from: Option<SystemTime>,
    pub expires: Option<SystemTime>,
}

/// The selection of DescribeSnapshots. All but ids select only snapshots of the own account.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotQuery {
    /// By filter `snapshot-id`, at most [`crate::MAX_FILTER_VALUES`]. The page omits missing ids.
    FilterIds(Vec<SnapshotId>),
    /// Of the own account, by filter `tag:<key>` with any of the values.
    Tag {
        key: String,
        /// The values, at most [`crate::MAX_FILTER_VALUES`].
        values: Vec<String>,
    },
    /// Of the own account, all or those of one volume (filter `volume-id`).
    Owned {
        /// Only snapshots of this volume.
        volume: Option<VolumeId>,
    },
}

/// EC2's actions on snapshots.
pub trait Snapshots {
    /// Calls CreateSnapshot. The snapshot is `pending` at first.
    fn create_snapshot(&self, request: &CreateSnapshot) -> impl Future<Output = Result<Snapshot>> + Send;

    /// Calls DeleteSnapshot.
    fn delete_snapshot(&self, id: &SnapshotId) -> impl Future<Output = Result<()>> + Send;

    /// Calls EnableFastSnapshotRestores for one snapshot. Zones that EC2 refuses are in the answer, not in the error.
    fn enable_fast_snapshot_restores(
        &self,
        id: &SnapshotId,
        zones: &[ZoneName],
    ) -> impl Future<Output = Result<FastRestores>> + Send;

    /// Calls LockSnapshot.
    fn lock_snapshot(&self, request: &LockSnapshot) -> impl Future<Output = Result<()>> + Send;

    /// Calls DescribeLockedSnapshots for one snapshot. Returns `None` if it was never locked, or was unlocked.
    fn describe_lock(&self, id: &SnapshotId) -> impl Future<Output = Result<Option<SnapshotLock>>> + Send;

    /// Calls DescribeSnapshots and returns one page.
    fn describe_snapshots(
        &self,
        query: &SnapshotQuery,
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Snapshot>>> + Send;
}
