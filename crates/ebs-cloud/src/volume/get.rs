//! The volume as it is.

use ebs_ec2::{Ec2, Volume, VolumeState};
use ebs_types::VolumeId;

use crate::{Cloud, CloudError, Object};

impl<E: Ec2> Cloud<E> {
    /// The volume as EC2 describes it now.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] also for one that is being deleted.
    pub async fn volume(&self, id: &VolumeId) -> Result<Volume, CloudError> {
        let found = self.lookups.volume(None, id).await?;
        found.filter(exists).ok_or_else(|| CloudError::NotFound { object: Object::Volume(id.clone()), cause: None })
    }
}

/// True for a volume that is not on its way out of existence.
pub(crate) fn exists(volume: &Volume) -> bool {
    !matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted)
}
