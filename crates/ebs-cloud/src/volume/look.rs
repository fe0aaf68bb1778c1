//! The volume as it is.

use ebs_ec2::{Ec2, Volume, VolumeQuery, VolumeState};
use ebs_types::VolumeId;

use crate::call::read;
use crate::{Cloud, CloudError, Object, pages};

impl<E: Ec2> Cloud<E> {
    /// The volume as EC2 describes it now.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] also for one that is being deleted.
    pub async fn volume(&self, id: &VolumeId) -> Result<Volume, CloudError> {
        let query = VolumeQuery::FilterIds(vec![id.clone()]);
        let found = read(&format!("look at volume {id}"), || pages::volumes(&*self.ec2, &query)).await?;
        found
            .into_iter()
            .find(|v| v.id == *id && !matches!(v.state, VolumeState::Deleting | VolumeState::Deleted))
            .ok_or_else(|| CloudError::NotFound { object: Object::Volume(id.clone()), cause: None })
    }
}
