//! DeleteVolume.

use std::time::Duration;

use ebs_ec2::{Ec2, ErrorClass, VolumeState, Volumes};
use ebs_types::{VolumeId, Waiters};
use tokio::time::Instant;

use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::wait::{FirstLook, Verdict};
use crate::{Cloud, CloudError, bounds};

impl<E: Ec2> Cloud<E> {
    /// Sees to it that the volume is deleted or being deleted. A volume that does not exist is a success.
    ///
    /// # Errors
    /// [`CloudError::FailedPrecondition`] while it is attached.
    pub async fn delete_volume(&self, id: &VolumeId, waiters: &Waiters) -> Result<(), CloudError> {
        let op = Op::start(format!("delete volume {id}"), bounds::DELETE, waiters);
        loop {
            let error = match mutate(&op, || self.ec2.delete_volume(id)).await? {
                Ok(()) => return Ok(()),
                Err(e) => e,
            };
            let still_there = match error.class {
                ErrorClass::VolumeNotFound | ErrorClass::MalformedId => return Ok(()),
                // Being deleted already is such a state.
                ErrorClass::IncorrectState => Duration::ZERO,
                ErrorClass::Ambiguous => bounds::SETTLE,
                _ => return Err(refused(&op.what, error)),
            };
            if self.is_going(&op, id, still_there).await? {
                return Ok(());
            }
            if error.class != ErrorClass::Ambiguous || Instant::now() >= op.deadline {
                return Err(refused(&op.what, error));
            }
        }
    }

    /// True as soon as a look shows the volume gone or going; false when it has lived on for that long.
    async fn is_going(&self, op: &Op<'_>, id: &VolumeId, patience: Duration) -> Result<bool, CloudError> {
        let until = Instant::now() + patience;
        self.watch
            .volume(op, FirstLook::Now, id, |seen| match seen.map(|v| v.state) {
                None | Some(VolumeState::Deleting | VolumeState::Deleted) => Verdict::Done(true),
                Some(_) if Instant::now() >= until => Verdict::Done(false),
                Some(_) => Verdict::Waiting,
            })
            .await
    }
}
