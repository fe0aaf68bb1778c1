//! Creates, finds, modifies and deletes volumes.

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
use crate::{CloudError, ModifySpec, Object, Result, Sidecar, VolumeSpec, timeouts};
use iops_limit::IopsLimitProbe;
use memory::VolumeMemory;

/// The operations on volumes, and the memory that they share.
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

    /// Creates the volume unless it exists, and waits until it is usable. A final error proves that no volume remains.
    pub async fn create(&self, spec: &VolumeSpec, waiters: &Waiters) -> Result<Volume> {
        let op = &OpContext::start(format!("create volume {:?}", spec.name), timeouts::CREATE, waiters);
        let creation = Creation { service: self, op, spec };
        self.context.recent.leases.serve(&[Sidecar::Provisioner], waiters, create::create(&creation)).await
    }

    /// Deletes the volume. Succeeds if EC2 is already deleting it, or if it provably does not exist. EC2's "not found"
    /// is a proof only once neither its errors nor its describes can still show the time before the creation.
    pub async fn delete(&self, id: &VolumeId, waiters: &Waiters) -> Result<()> {
        let op = OpContext::start(format!("delete volume {id}"), timeouts::DELETE, waiters);
        self.context.recent.leases.serve(&[Sidecar::Provisioner], waiters, delete::delete(self, &op, id)).await
    }

    /// Returns the volume as EC2 describes it now, unless it is being deleted. If this process has known the volume
    /// within the last 15 s and has not deleted it, describes again for up to 15 s before it fails.
    pub async fn get(&self, id: &VolumeId) -> Result<Volume> {
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

    /// Returns a page of the volumes that have the managed tag. With `max_entries` 0, the page has at most 500.
    pub async fn list(&self, max_entries: u32, token: Option<String>) -> Result<Page<Volume>> {
        let query = VolumeQuery::Tag { key: self.context.config.driver.managed_tag(), values: vec!["true".to_owned()] };
        listing::list(&self.context.ec2, &query, max_entries, token).await
    }

    /// Changes the volume's properties and then its tags, for requests of these sidecars. Returns the volume with its
    /// previous tags.
    ///
    /// The properties are changed first, so that the volume is unchanged if EC2 refuses them. Unless the request only
    /// grows the volume, this process first waits until the calls of a previous leader cannot take effect any more.
    ///
    /// # Errors
    /// `CloudErrorKind::Internal` if EC2 refuses a tag: `InvalidArgument` would mean that no property changed.
    pub async fn modify(
        &self,
        sidecars: &[Sidecar],
        id: &VolumeId,
        spec: &ModifySpec,
        waiters: &Waiters,
    ) -> Result<Volume> {
        let op = OpContext::start(modification::description(id, spec), timeouts::EXPAND, waiters);
        self.context.recent.leases.serve(sidecars, waiters, modification::modify(self, &op, id, spec)).await
    }

    /// Waits until EC2 has loaded the volume's data, so that the volume has its full speed. Ends soon after its last
    /// waiter has left. The driver remembers EC2's estimate, and the next attempt sends no describe before that time.
    pub async fn await_initialized(&self, id: &VolumeId, waiters: &Waiters) -> Result<()> {
        initialization::await_initialized(self, id, waiters).await
    }
}
