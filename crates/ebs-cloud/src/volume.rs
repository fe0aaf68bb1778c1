//! Volumes: creating, finding, modifying and deleting them.

mod adopt;
mod by_name;
mod client_token;
mod create;
mod delete;
mod initialization;
mod iops_limit;
mod memory;
mod modification;
mod new_request;
mod plan;
mod refusal;
mod request;

use std::sync::Arc;

use ebs_ec2::{Ec2, Page, Volume, VolumeId, VolumeQuery, Waiters};
use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::describe::listing;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::{CloudError, ModifySpec, Object, Sidecar, VolumeSpec, timeouts};
use iops_limit::IopsLimitProbe;
use memory::VolumeMemory;

/// The operations on volumes, and their memory.
#[derive(Debug)]
pub struct VolumeService<E> {
    context: Arc<Context<E>>,
    memory: VolumeMemory,
    iops_limits: IopsLimitProbe<E>,
}

struct Creation<'a, E> {
    service: &'a VolumeService<E>,
    op: &'a OpContext<'a>,
    spec: &'a VolumeSpec,
}

impl<E: Ec2> VolumeService<E> {
    pub(crate) fn new(context: Arc<Context<E>>) -> Self {
        let iops_limits = IopsLimitProbe::new(Arc::clone(&context.ec2));
        Self { context, memory: VolumeMemory::default(), iops_limits }
    }

    /// Creates the volume unless it exists, and waits until it is usable (`available` or `in-use`).
    ///
    /// # Errors
    /// [`CloudError`]. An error is final only with the proof that no volume was left behind.
    pub async fn create(&self, spec: &VolumeSpec, waiters: &Waiters) -> Result<Volume, CloudError> {
        let op = &OpContext::start(format!("create volume {:?}", spec.name), timeouts::CREATE, waiters);
        let creation = Creation { service: self, op, spec };
        self.context.recent.leases.serve(&[Sidecar::Provisioner], waiters, create::create(&creation)).await
    }

    /// Deletes the volume, unless it is being deleted or does not exist. "Does not exist" is a success only at a time
    /// when neither EC2's error nor its describes can show the time before the creation.
    ///
    /// # Errors
    /// `CloudErrorKind::FailedPrecondition` while the volume is attached.
    pub async fn delete(&self, id: &VolumeId, waiters: &Waiters) -> Result<(), CloudError> {
        let op = OpContext::start(format!("delete volume {id}"), timeouts::DELETE, waiters);
        self.context.recent.leases.serve(&[Sidecar::Provisioner], waiters, delete::delete(self, &op, id)).await
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
            match self.context.describer.volume(None, id).await? {
                Some(volume) if volume.exists() => return Ok(volume),
                None if self.context.recent.may_be_unseen(&object, asked)
                    && !self.context.recent.is_recent(&Write::Deletion(id.clone())) =>
                {
                    sleep(timeouts::UNSEEN_INTERVAL).await;
                }
                _ => return Err(CloudError::not_found(object)),
            }
        }
    }

    /// Returns a page of the volumes with the managed tag. With `max_entries` 0, EC2 chooses the length.
    ///
    /// # Errors
    /// `CloudErrorKind::BadPageToken`.
    pub async fn list(&self, max_entries: u32, token: Option<String>) -> Result<Page<Volume>, CloudError> {
        let query = VolumeQuery::Tag { key: self.context.config.driver.managed_tag(), values: vec!["true".to_owned()] };
        listing::list(&self.context.ec2, &query, max_entries, token).await
    }

    /// Changes the properties and then the tags of the volume as requested, for requests of these sidecars. Returns the
    /// volume with its previous tags.
    ///
    /// The properties are first, so that a refusal of EC2 leaves the volume unchanged. In the first 15 s of the
    /// resizer's or the volume modifier's requests to this process, EC2 may still carry out calls of the process that
    /// had the lease before. This process waits for them, except for growth.
    ///
    /// # Errors
    /// `CloudErrorKind::FailedPrecondition` has the time of the next possible modification. A tag that EC2 refuses for
    /// good is `CloudErrorKind::Internal` if the request has properties too: "invalid" would mean that nothing changed.
    pub async fn modify(
        &self,
        sidecars: &[Sidecar],
        id: &VolumeId,
        spec: &ModifySpec,
        waiters: &Waiters,
    ) -> Result<Volume, CloudError> {
        let op = OpContext::start(modification::description(id, spec), timeouts::EXPAND, waiters);
        self.context.recent.leases.serve(sidecars, waiters, modification::modify(self, &op, id, spec)).await
    }

    /// Waits until the volume has all its data at full speed. Ends soon after its last waiter has left.
    ///
    /// # Errors
    /// `CloudErrorKind::InProgress` has EC2's estimate of the end. The memory keeps it, so that the next attempt does
    /// not describe earlier than this one would have.
    pub async fn await_initialized(&self, id: &VolumeId, waiters: &Waiters) -> Result<(), CloudError> {
        initialization::await_initialized(self, id, waiters).await
    }
}
