//! Gets and lists snapshots.

use ebs_ec2::{Ec2, Page, Snapshot, SnapshotQuery};
use ebs_types::{SnapshotId, VolumeId};
use tokio::time::{Instant, sleep};

use super::service::SnapshotService;
use crate::describe::listing;
use crate::recent_writes::Write;
use crate::{CloudError, Object, bounds};

impl<E: Ec2> SnapshotService<E> {
    /// Returns a page of the account's snapshots, or of those of one volume. With `max_entries` 0, EC2 chooses the
    /// length.
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

    /// Returns the snapshot as EC2 describes it now, or `None`. Describes again for up to 15 s if this process has
    /// known the snapshot within the last 15 s and has not deleted it.
    ///
    /// # Errors
    /// `CloudErrorKind::Unavailable`, `CloudErrorKind::Unauthenticated`, `CloudErrorKind::Unauthorized`.
    pub async fn get(&self, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        let object = Object::Snapshot(id.clone());
        loop {
            let asked = Instant::now();
            let found = self.context.lookups.snapshot(None, id).await?;
            let is_deleted = self.context.recent.is_recent(&Write::SnapshotDeletion(id.clone()));
            if found.is_some() || is_deleted || !self.context.recent.may_be_unseen(&object, asked) {
                return Ok(found);
            }
            sleep(bounds::UNSEEN_INTERVAL).await;
        }
    }
}
