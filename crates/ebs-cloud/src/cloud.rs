//! The operations.

use std::future::pending;
use std::sync::Arc;

use ebs_ec2::{Ec2, Page, Snapshot, Volume};
use ebs_types::{Gib, NodeId, SnapshotId, VolumeId, Waiters};

use crate::{Attached, CloudConfig, CloudError, Ensured, SnapshotSpec, VolumeSpec};

/// EBS policy over an EC2.
///
/// All methods may run concurrently; the caller sees to it that at most one mutating operation runs for a key
/// (volume name, volume, volume and instance, snapshot name). Each operation has its own bound and ends with
/// [`CloudError::InProgress`], [`CloudError::OutcomeUnknown`] or [`CloudError::Unavailable`] at its end.
///
/// **Cancellation.** Methods that take [`Waiters`] must be run to their end, never dropped: they stop by themselves
/// with [`CloudError::Abandoned`] soon after the last waiter has left, and then start no further mutation.
#[derive(Debug)]
pub struct Cloud<E> {
    ec2: Arc<E>,
    config: CloudConfig,
}

impl<E: Ec2> Cloud<E> {
    /// Policy over that EC2.
    pub fn new(ec2: Arc<E>, config: CloudConfig) -> Self {
        Self { ec2, config }
    }

    /// Sees to it that the volume exists and is usable (`available` or `in-use`).
    ///
    /// # Errors
    /// [`CloudError`]; final ones only when it is proven that no volume was left behind.
    pub async fn create_volume(&self, _spec: &VolumeSpec, _waiters: &Waiters) -> Result<Ensured<Volume>, CloudError> {
        let _ = (&self.ec2, &self.config);
        pending().await
    }

    /// Sees to it that the volume is deleted or being deleted. A volume that does not exist is a success.
    ///
    /// # Errors
    /// [`CloudError::FailedPrecondition`] while it is attached.
    pub async fn delete_volume(&self, _id: &VolumeId, _waiters: &Waiters) -> Result<(), CloudError> {
        pending().await
    }

    /// The volume as EC2 describes it now.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] also for one that is being deleted.
    pub async fn volume(&self, _id: &VolumeId) -> Result<Volume, CloudError> {
        pending().await
    }

    /// Sees to it that the volume is attached to the node and EC2 says so.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] names the volume or the instance; [`CloudError::FailedPrecondition`] names the
    /// instance to which the volume is attached instead.
    pub async fn attach(&self, _volume: &VolumeId, _node: &NodeId, _waiters: &Waiters) -> Result<Attached, CloudError> {
        pending().await
    }

    /// Sees to it that EC2 lists no attachment of the volume to the node. Never forced.
    ///
    /// # Errors
    /// [`CloudError::InProgress`] when the device stays busy.
    pub async fn detach(&self, _volume: &VolumeId, _node: &NodeId, _waiters: &Waiters) -> Result<(), CloudError> {
        pending().await
    }

    /// Sees to it that the volume has at least this size; returns the size it has.
    ///
    /// # Errors
    /// [`CloudError::FailedPrecondition`] says when the next modification is possible.
    pub async fn expand(&self, _volume: &VolumeId, _size: Gib, _waiters: &Waiters) -> Result<Gib, CloudError> {
        pending().await
    }

    /// Sees to it that a snapshot of that name and source exists; it may still be `pending`.
    ///
    /// # Errors
    /// [`CloudError`]; final ones only when it is proven that no snapshot was left behind.
    pub async fn create_snapshot(&self, _spec: &SnapshotSpec, _waiters: &Waiters) -> Result<Snapshot, CloudError> {
        pending().await
    }

    /// Sees to it that the snapshot is deleted. One that does not exist is a success.
    ///
    /// # Errors
    /// [`CloudError::FailedPrecondition`] while it is in use or locked.
    pub async fn delete_snapshot(&self, _id: &SnapshotId, _waiters: &Waiters) -> Result<(), CloudError> {
        pending().await
    }

    /// The snapshot as EC2 describes it now; `None` when there is none.
    ///
    /// # Errors
    /// [`CloudError::Unavailable`], [`CloudError::Unauthorized`].
    pub async fn snapshot(&self, _id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        pending().await
    }

    /// A page of the account's snapshots, all or those of one volume. `max_entries` 0 leaves the length to EC2.
    ///
    /// # Errors
    /// [`CloudError::BadPageToken`].
    pub async fn list_snapshots(
        &self,
        _volume: Option<VolumeId>,
        _max_entries: u32,
        _token: Option<String>,
    ) -> Result<Page<Snapshot>, CloudError> {
        pending().await
    }

    /// A page of the volumes that carry the managed tag. `max_entries` 0 leaves the length to EC2.
    ///
    /// # Errors
    /// [`CloudError::BadPageToken`].
    pub async fn list_volumes(&self, _max_entries: u32, _token: Option<String>) -> Result<Page<Volume>, CloudError> {
        pending().await
    }

    /// Asks EC2 once whether it answers and knows us.
    ///
    /// # Errors
    /// [`CloudError::Unavailable`], [`CloudError::Unauthorized`].
    pub async fn check_access(&self) -> Result<(), CloudError> {
        pending().await
    }
}
