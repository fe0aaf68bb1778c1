//! The volumes as they are.

use ebs_ec2::{Ec2, Page, Volume, VolumeQuery};
use ebs_types::VolumeId;

use super::service::VolumeService;
use crate::describe::listing;
use crate::{CloudError, Object};

impl<E: Ec2> VolumeService<E> {
    /// A page of the volumes that carry the managed tag. `max_entries` 0 leaves the length to EC2.
    ///
    /// # Errors
    /// `CloudErrorKind::BadPageToken`.
    pub async fn list(&self, max_entries: u32, token: Option<String>) -> Result<Page<Volume>, CloudError> {
        let query = VolumeQuery::Tag { key: self.context.config.driver.managed_tag(), values: vec!["true".to_owned()] };
        listing::list(&self.context.ec2, &query, max_entries, token).await
    }

    /// The volume as EC2 describes it now.
    ///
    /// # Errors
    /// `CloudErrorKind::NotFound` also for one that is being deleted.
    pub async fn get(&self, id: &VolumeId) -> Result<Volume, CloudError> {
        let found = self.context.lookups.volume(None, id).await?;
        found.filter(Volume::exists).ok_or_else(|| CloudError::not_found(Object::Volume(id.clone())))
    }
}
