//! Tags of a volume that a modification sets and deletes.

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Volumes};
use ebs_types::VolumeId;

use crate::call::mutate;
use crate::op::Op;
use crate::refused::refused;
use crate::volume::service::VolumeService;
use crate::{CloudError, ModifySpec, Object};

impl<E: Ec2> VolumeService<E> {
    /// Deletes first and then sets, so that a key in both ends with its new value. Both always: a describe that shows
    /// the tags as wanted may show the past, and both calls may be repeated. True when there was anything to do.
    pub(super) async fn change_tags(&self, op: &Op<'_>, id: &VolumeId, spec: &ModifySpec) -> Result<bool, CloudError> {
        let gone: Vec<String> = spec.deleted_tags.iter().filter(|key| !spec.tags.contains_key(*key)).cloned().collect();
        if !gone.is_empty() {
            let ec2 = self.context.ec2.for_mutation(op);
            let answer = mutate(op, || ec2.delete_tags(id.as_str(), &gone)).await?;
            answer.map_err(|e| tags_refused(op, id, e))?;
        }
        if !spec.tags.is_empty() {
            let ec2 = self.context.ec2.for_mutation(op);
            let answer = mutate(op, || ec2.create_tags(id.as_str(), &spec.tags)).await?;
            answer.map_err(|e| tags_refused(op, id, e))?;
        }
        Ok(!gone.is_empty() || !spec.tags.is_empty())
    }
}

fn tags_refused(op: &Op<'_>, id: &VolumeId, error: Ec2Error) -> CloudError {
    match error.class {
        ErrorClass::VolumeNotFound | ErrorClass::MalformedId => {
            CloudError::not_found(Object::Volume(id.clone())).caused_by(error)
        }
        _ => refused(op, error),
    }
}
