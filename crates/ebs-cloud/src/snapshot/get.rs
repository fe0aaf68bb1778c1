//! The snapshots as they are.

use ebs_ec2::{Ec2, Page, Snapshot, SnapshotQuery};
use ebs_types::{SnapshotId, VolumeId};

use super::service::SnapshotService;
use crate::CloudError;
use crate::describe::listing;

impl<E: Ec2> SnapshotService<E> {
    /// A page of the account's snapshots, all or those of one volume. `max_entries` 0 leaves the length to EC2.
    ///
    /// # Errors
    /// `CloudErrorKind::BadPageToken`.
    pub async fn list(
        &self,
        volume: Option<VolumeId>,
        max_entries: u32,
        token: Option<String>,
    ) -> Result<Page<Snapshot>, CloudError> {
        listing::list(&self.context.ec2, &SnapshotQuery::Owned { volume }, max_entries, token).await
    }

    /// The snapshot as EC2 describes it now; `None` when there is none.
    ///
    /// # Errors
    /// `CloudErrorKind::Unavailable`, `CloudErrorKind::Unauthorized`.
    pub async fn get(&self, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        self.context.lookups.snapshot(None, id).await
    }
}
