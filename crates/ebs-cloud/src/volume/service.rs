//! The state of the volume operations, over the shared context.

use std::sync::Arc;

use ebs_ec2::Ec2;

use super::iops_limit::IopsLimitProbe;
use super::memory::VolumeMemory;
use crate::context::Context;

#[derive(Debug)]
pub struct VolumeService<E> {
    pub(super) context: Arc<Context<E>>,
    pub(super) memory: VolumeMemory,
    pub(super) iops_limits: IopsLimitProbe<E>,
}

impl<E: Ec2> VolumeService<E> {
    pub(crate) fn new(context: Arc<Context<E>>) -> Self {
        let iops_limits = IopsLimitProbe::new(Arc::clone(&context.ec2));
        Self { context, memory: VolumeMemory::default(), iops_limits }
    }
}
