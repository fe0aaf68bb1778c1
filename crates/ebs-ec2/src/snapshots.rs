//! Snapshots.

use std::time::SystemTime;

use ebs_types::{Gib, SnapshotId, Tags, VolumeId, ZoneName};

use crate::{Page, PageRequest, Result};

/// State of a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names are EC2's own")]
pub enum SnapshotState {
    Pending,
    Completed,
    Error,
    /// A state this version does not know; never taken for completed.
    Other(String),
}

/// A snapshot as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    /// Its id.
    pub id: SnapshotId,
    /// The volume it was taken of. EC2 reports `vol-ffffffff` for copies and imports.
    pub source_volume: Option<VolumeId>,
    /// Size of that volume.
    pub size: Gib,
    /// Its state.
    pub state: SnapshotState,
    /// EC2's word on an error.
    pub status_message: Option<String>,
    /// When it was started.
    pub started: Option<SystemTime>,
    /// Encrypted.
    pub encrypted: bool,
    /// Owning account.
    pub owner: Option<String>,
    /// ARN of the Outpost that holds it.
    pub outpost_arn: Option<String>,
    /// Its tags.
    pub tags: Tags,
}

/// CreateSnapshot. EC2 has no idempotency token for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateSnapshot {
    /// Of what.
    pub volume: VolumeId,
    /// Description.
    pub description: String,
    /// Keep it on this Outpost.
    pub outpost_arn: Option<String>,
    /// Tags.
    pub tags: Tags,
}

/// What EnableFastSnapshotRestores did, by zone.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FastRestores {
    /// Where they are being enabled, or were before.
    pub enabled: Vec<ZoneName>,
    /// Where they cannot be.
    pub failures: Vec<FastRestoreFailure>,
}

/// Why fast restores cannot be enabled in a zone: EC2 reports it inside an answer that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FastRestoreFailure {
    /// The zone as EC2 names it; `None` when it names none.
    pub zone: Option<String>,
    /// EC2's code.
    pub code: Option<String>,
    /// EC2's message.
    pub message: String,
}

/// LockSnapshot: what is `None` is not sent, and EC2 judges the combination.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LockSnapshot {
    /// Which snapshot.
    pub snapshot: SnapshotId,
    /// `governance` or `compliance`, as the user wrote it.
    pub mode: Option<String>,
    /// Hours in which a lock in compliance mode can still be changed (EC2: 1 to 72).
    pub cool_off_hours: Option<u32>,
    /// When the lock ends.
    pub expiration: Option<SystemTime>,
    /// How long the lock lasts, in days (EC2: 1 to 36500).
    pub duration_days: Option<u32>,
}

/// State of a lock.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LockState {
    /// In governance mode: an account with the right can change or lift it.
    Governance,
    /// In compliance mode, and still within the cooling-off period: as in governance mode.
    ComplianceCoolOff,
    /// In compliance mode: it can only become longer.
    Compliance,
    /// It has ended.
    Expired,
    /// A state this version does not know; never taken for a lock.
    Other(String),
}

/// The lock of a snapshot as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SnapshotLock {
    /// Of which snapshot.
    pub snapshot: SnapshotId,
    /// Its state.
    pub state: LockState,
    /// Hours of the cooling-off period.
    pub cool_off_hours: Option<u32>,
    /// How long it lasts from `counts_from` on, in days.
    pub duration_days: Option<u32>,
    /// From when on the duration counts: of a pending snapshot, from its completion.
    pub counts_from: Option<SystemTime>,
    /// When it ends.
    pub expires: Option<SystemTime>,
}

/// DescribeSnapshots, always of the own account except by id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SnapshotQuery {
    /// By filter `snapshot-id`, at most [`crate::MAX_FILTER_VALUES`]: missing ids are simply absent.
    FilterIds(Vec<SnapshotId>),
    /// By filter `tag:<key>` with any of the values, own account.
    Tag {
        /// Tag key.
        key: String,
        /// Values, at most [`crate::MAX_FILTER_VALUES`].
        values: Vec<String>,
    },
    /// Own account, all or those of one volume (filter `volume-id`).
    Owned {
        /// Only of this volume.
        volume: Option<VolumeId>,
    },
}

/// What EC2 does with snapshots.
pub trait Snapshots {
    /// CreateSnapshot; the snapshot is `pending` at first.
    fn create_snapshot(&self, request: &CreateSnapshot) -> impl Future<Output = Result<Snapshot>> + Send;

    /// DeleteSnapshot.
    fn delete_snapshot(&self, id: &SnapshotId) -> impl Future<Output = Result<()>> + Send;

    /// EnableFastSnapshotRestores of one snapshot. Zones that EC2 refuses are in the answer, not in the error.
    fn enable_fast_snapshot_restores(
        &self,
        id: &SnapshotId,
        zones: &[ZoneName],
    ) -> impl Future<Output = Result<FastRestores>> + Send;

    /// LockSnapshot.
    fn lock_snapshot(&self, request: &LockSnapshot) -> impl Future<Output = Result<()>> + Send;

    /// DescribeLockedSnapshots of one snapshot; `None` when it was never locked, or was unlocked.
    fn describe_lock(&self, id: &SnapshotId) -> impl Future<Output = Result<Option<SnapshotLock>>> + Send;

    /// DescribeSnapshots, one page.
    fn describe_snapshots(
        &self,
        query: &SnapshotQuery,
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Snapshot>>> + Send;
}
