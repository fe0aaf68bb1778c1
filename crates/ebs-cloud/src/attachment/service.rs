//! The state of the attachment operations, over the shared context.

use std::sync::Arc;

use ebs_ec2::Ec2;

use super::device_name::DeviceNames;
use super::instance_cache::{EbsCardCounts, InstanceCache};
use super::pairs::PairMemory;
use super::pending_detaches::{PendingDetach, PendingDetaches};
use crate::context::Context;

#[derive(Debug)]
pub struct AttachmentService<E> {
    pub(super) context: Arc<Context<E>>,
    pub(super) pairs: PairMemory,
    pub(super) devices: DeviceNames,
    pub(super) instances: InstanceCache<E>,
    pub(super) card_counts: EbsCardCounts<E>,
    pub(super) pending_detaches: PendingDetaches,
}

impl<E: Ec2> AttachmentService<E> {
    pub(crate) fn new(context: Arc<Context<E>>) -> Self {
        Self {
            pairs: PairMemory::default(),
            devices: DeviceNames::default(),
            instances: InstanceCache::new(Arc::clone(&context)),
            card_counts: EbsCardCounts::new(Arc::clone(&context.ec2)),
            pending_detaches: PendingDetaches::default(),
            context,
        }
    }

    /// Returns the detaches that were requested and have not ended.
    pub fn pending_detaches(&self) -> Vec<PendingDetach> {
        self.pending_detaches.all()
    }
}
