//! Gets and lists volumes.

use ebs_ec2::{Ec2, Page, Volume, VolumeQuery};
use ebs_types::VolumeId;
use tokio::time::{Instant, sleep};

use super::service::VolumeService;
use crate::describe::listing;
use crate::recent_writes::Write;
use crate::{CloudError, Object, bounds};

impl<E: Ec2> VolumeService<E> {
    /// Returns a page of the volumes with the managed tag. With `max_entries` 0, EC2 chooses the length.
    ///
    /// # Errors
    /// `CloudErrorKind::BadPageToken`.
    pub async fn list(&self, max_entries: u32, token: Option<String>) -> Result<Page<Volume>, CloudError> {
        let query = VolumeQuery::Tag { key: self.context.config.driver.managed_tag(), values: vec!["true".to_owned()] };
        listing::list(&self.context.ec2, &query, max_entries, token).await
    }

    /// Returns the volume as EC2 describes it now.
    ///
    /// # Errors
    /// `CloudErrorKind::NotFound`, also for a volume that is being deleted. Describes again for up to 15 s if this
    /// process has known the volume within the last 15 s and has not deleted it.
    pub async fn get(&self, id: &VolumeId) -> Result<Volume, CloudError> {
        let object = Object::Volume(id.clone());
        loop {
            let asked = Instant::now();
            match self.context.lookups.volume(None, id).await? {
                Some(volume) if volume.exists() => return Ok(volume),
                None if self.context.recent.may_be_unseen(&object, asked)
                    && !self.context.recent.is_recent(&Write::Deletion(id.clone())) =>
                {
                    sleep(bounds::UNSEEN_INTERVAL).await;
                }
                _ => return Err(CloudError::not_found(object)),
            }
        }
    }
}
