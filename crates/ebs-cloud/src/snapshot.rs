//! Creates, finds and deletes snapshots, with their locks and fast restores.

mod create;
mod delete;
mod ensure;
mod lock_and_fast_restore;
mod memory;
mod strength;

use std::sync::Arc;

use ebs_ec2::{Ec2, Page, Snapshot, SnapshotId, SnapshotQuery, VolumeId, Waiters};
use tokio::time::{Instant, sleep};

use crate::context::Context;
use crate::describe::listing;
use crate::op_context::OpContext;
use crate::recent_writes::Write;
use crate::{Object, Result, Sidecar, SnapshotFeatures, SnapshotSpec, timeouts};
use memory::SnapshotMemory;

/// The operations on snapshots, and the memory that they share.
#[derive(Debug)]
pub struct SnapshotService<E> {
    context: Arc<Context<E>>,
    memory: SnapshotMemory,
}

struct Creation<'a, E> {
    service: &'a SnapshotService<E>,
    op: &'a OpContext<'a>,
    spec: &'a SnapshotSpec,
}

impl<E: Ec2> SnapshotService<E> {
    pub(crate) fn new(context: Arc<Context<E>>) -> Self {
        Self { context, memory: SnapshotMemory::default() }
    }

    /// Creates the snapshot unless it exists, and adds its features. The snapshot may still be `pending`. Success means
    /// that this process has seen the fast restores and the lock. A final error proves that no snapshot remains.
    pub async fn ensure(
        &self,
        spec: &SnapshotSpec,
        features: &SnapshotFeatures,
        waiters: &Waiters,
    ) -> Result<Snapshot> {
        ensure::ensure(self, spec, features, waiters).await
    }

    /// Deletes the snapshot. Succeeds if it does not exist.
    pub async fn delete(&self, id: &SnapshotId, waiters: &Waiters) -> Result<()> {
        let op = OpContext::start(format!("delete snapshot {id}"), timeouts::DELETE, waiters);
        self.context.recent.leases.serve(&[Sidecar::Snapshotter], waiters, delete::delete(self, &op, id)).await
    }

    /// Returns the snapshot as EC2 describes it now, or `None`. If this process has known the snapshot within the last
    /// 15 s and has not deleted it, describes again for up to 15 s.
    pub async fn get(&self, id: &SnapshotId) -> Result<Option<Snapshot>> {
        let object = Object::Snapshot(id.clone());
        loop {
            let asked = Instant::now();
            let found = self.context.describer.snapshot(id).await?;
            let is_deleted = self.context.recent.is_recent(&Write::SnapshotDeletion(id.clone()));
            if found.is_some() || is_deleted || !self.context.recent.may_be_unseen(&object, asked) {
                return Ok(found);
            }
            sleep(timeouts::UNSEEN_INTERVAL).await;
        }
    }

    /// Returns a page of the account's or one volume's snapshots. With `max_entries` 0, the page has at most 500.
    pub async fn list(
        &self,
        volume: Option<VolumeId>,
        max_entries: u32,
        token: Option<String>,
    ) -> Result<Page<Snapshot>> {
        listing::list(&self.context.ec2, &SnapshotQuery::Owned { volume }, max_entries, token).await
    }
}
