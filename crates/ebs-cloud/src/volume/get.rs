//! The volume as it is.

use ebs_ec2::{Ec2, Volume, VolumeState};
use ebs_types::VolumeId;

use crate::describe::{FirstPoll, Verdict};
use crate::op::Op;
use crate::{Cloud, CloudError, Object};

impl<E: Ec2> Cloud<E> {
    /// The volume as EC2 describes it now.
    ///
    /// # Errors
    /// `CloudErrorKind::NotFound` also for one that is being deleted.
    pub async fn volume(&self, id: &VolumeId) -> Result<Volume, CloudError> {
        let found = self.lookups.volume(None, id).await?;
        found.filter(exists).ok_or_else(|| CloudError::not_found(Object::Volume(id.clone())))
    }

    /// The volume, once it is sure that there is one or none: one made a moment ago may not be shown yet.
    pub(crate) async fn volume_for_sure(&self, op: &Op<'_>, id: &VolumeId) -> Result<Volume, CloudError> {
        let object = Object::Volume(id.clone());
        let settled_at = self.recent.heard_of(&object);
        self.waiter
            .volume(op, FirstPoll::Now, id, |seen, sent| {
                let settled = sent >= settled_at;
                match seen {
                    Some(volume) if exists(&volume) => {
                        self.recent.note_seen(&object);
                        Verdict::Done(volume)
                    }
                    None if !settled => Verdict::Waiting,
                    None | Some(_) => Verdict::Failed(missing(id)),
                }
            })
            .await
    }
}

/// True for a volume that is not on its way out of existence.
pub(crate) fn exists(volume: &Volume) -> bool {
    !matches!(volume.state, VolumeState::Deleting | VolumeState::Deleted)
}

fn missing(id: &VolumeId) -> CloudError {
    CloudError::not_found(Object::Volume(id.clone()))
}
