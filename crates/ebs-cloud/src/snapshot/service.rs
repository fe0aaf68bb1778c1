//! The state of the snapshot operations, over the shared context.

use std::sync::Arc;

use super::memory::SnapshotMemory;
use crate::context::Context;

#[derive(Debug)]
pub struct SnapshotService<E> {
    pub(super) context: Arc<Context<E>>,
    pub(super) memory: SnapshotMemory,
}

impl<E> SnapshotService<E> {
    pub(crate) fn new(context: Arc<Context<E>>) -> Self {
        Self { context, memory: SnapshotMemory::default() }
    }
}
