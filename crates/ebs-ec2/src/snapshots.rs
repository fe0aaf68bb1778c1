//! Snapshots.

use std::time::SystemTime;

use crate::{Gib, Page, PageRequest, Result, SnapshotId, Tags, VolumeId, ZoneName};

/// The state of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum SnapshotState {
    Pending,
    Completed,
    Error,
    /// A state that this version does not know. The driver never treats it as completed.
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

/// The parameters of CreateSnapshot. EC2 has no idempotency token for this action.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSnapshot {
    pub volume: VolumeId,
    pub description: String,
    pub outpost_arn: Option<String>,
    pub tags: Tags,
}

/// The result of EnableFastSnapshotRestores for each zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FastRestores {
    /// Zones in which EC2 enables fast restores, or had already enabled them.
    pub enabled: Vec<ZoneName>,
    pub failures: Vec<FastRestoreFailure>,
}

/// Why EC2 cannot enable fast restores in a zone. EC2 reports this inside a successful answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastRestoreFailure {
    /// The zone as EC2 names it, or `None` if EC2 names no zone.
    pub zone: Option<String>,
    pub code: Option<String>,
    pub message: String,
}

/// The parameters of LockSnapshot. A field that is `None` is not sent. EC2 checks the combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSnapshot {
    pub snapshot: SnapshotId,
    /// The mode as the user wrote it: `governance` or `compliance`.
    pub mode: Option<String>,
    /// The number of hours in which a compliance lock can still be changed (EC2: 1 to 72).
    pub cool_off_hours: Option<u32>,
    pub expiration: Option<SystemTime>,
    /// The duration of the lock in days (EC2: 1 to 36500).
    pub duration_days: Option<u32>,
}

/// The state of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LockState {
    /// Governance mode: users with the permission can change or remove the lock.
    Governance,
    /// Compliance mode within the cooling-off period, in which it behaves like governance mode.
    ComplianceCoolOff,
    /// Compliance mode: the lock can only be extended.
    Compliance,
    Expired,
    /// A state that this version does not know. The driver never treats a snapshot in this state as locked.
    Other(String),
}

/// The lock of a snapshot as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLock {
    pub snapshot: SnapshotId,
    pub state: LockState,
    pub cool_off_hours: Option<u32>,
    /// The duration in days, which begins at `counts_from`.
    pub duration_days: Option<u32>,
    /// When the duration begins. For a pending snapshot, this is when the snapshot completes.
    pub counts_from: Option<SystemTime>,
    pub expires: Option<SystemTime>,
}

/// Selects the snapshots that DescribeSnapshots returns. Only `FilterIds` also finds other accounts' snapshots.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotQuery {
    /// The existing snapshots with these ids (filter `snapshot-id`, at most [`crate::MAX_FILTER_VALUES`] ids).
    FilterIds(Vec<SnapshotId>),
    /// The account's own snapshots with one of at most [`crate::MAX_FILTER_VALUES`] tag values (filter `tag:<key>`).
    Tag { key: String, values: Vec<String> },
    /// The account's own snapshots: all of them, or those of one volume (filter `volume-id`).
    Owned { volume: Option<VolumeId> },
}

/// Calls EC2's actions on snapshots.
pub trait Snapshots {
    /// Calls CreateSnapshot. The new snapshot is `pending` at first.
    fn create_snapshot(&self, request: &CreateSnapshot) -> impl Future<Output = Result<Snapshot>> + Send;

    /// Calls DeleteSnapshot.
    fn delete_snapshot(&self, id: &SnapshotId) -> impl Future<Output = Result<()>> + Send;

    /// Calls EnableFastSnapshotRestores for one snapshot. The answer, not the error, lists the zones that EC2 refuses.
    fn enable_fast_snapshot_restores(
        &self,
        id: &SnapshotId,
        zones: &[ZoneName],
    ) -> impl Future<Output = Result<FastRestores>> + Send;

    /// Calls LockSnapshot.
    fn lock_snapshot(&self, request: &LockSnapshot) -> impl Future<Output = Result<()>> + Send;

    /// Calls DescribeLockedSnapshots for one snapshot. Returns `None` if the snapshot is unlocked.
    fn describe_lock(&self, id: &SnapshotId) -> impl Future<Output = Result<Option<SnapshotLock>>> + Send;

    /// Calls DescribeSnapshots and returns one page.
    fn describe_snapshots(
        &self,
        query: &SnapshotQuery,
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Snapshot>>> + Send;
}
