//! The state that all services share: one EC2, the memory of recent writes, and the configuration.

use std::fmt;
use std::sync::Arc;

use ebs_ec2::{Action, Ec2, Observer, Snapshot, SnapshotId, Volume, VolumeId};

use crate::describe::{Describer, FirstPoll, Verdict, Zones};
use crate::error::CloudError;
use crate::object::Object;
use crate::op_context::OpContext;
use crate::recent_writes::RecentWrites;
use crate::spec::CloudConfig;
use crate::timeouts;
use crate::traffic::{DescribeBatchers, Ec2Handle, Expiring, QueuePlace, RateLimited};
use crate::wall_clock::WallClock;

/// Create one per process: it has the process's rate limiter.
pub(crate) struct Context<E> {
    pub(crate) ec2: Arc<RateLimited<E>>,
    pub(crate) config: CloudConfig,
    pub(crate) clock: WallClock,
    pub(crate) recent: RecentWrites,
    pub(crate) describer: Describer<E>,
    pub(crate) zones: Zones<E>,
    observer: Option<Arc<dyn Observer>>,
    /// Places of operations in the queues of the rate limiter, by the text of the operation.
    places: Expiring<String, QueuePlace>,
}

impl<E> fmt::Debug for Context<E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("config", &self.config).finish_non_exhaustive()
    }
}

impl<E: Ec2> Context<E> {
    pub(crate) fn new(ec2: Arc<E>, config: CloudConfig, observer: Option<Arc<dyn Observer>>) -> Self {
        let ec2 = Arc::new(RateLimited::new(ec2, observer.clone()));
        Self {
            clock: WallClock::showing(config.time_of_day),
            recent: RecentWrites::new(),
            describer: Describer::new(DescribeBatchers::new(&ec2, config.batching)),
            zones: Zones::new(Arc::clone(&ec2)),
            observer,
            places: Expiring::default(),
            config,
            ec2,
        }
    }

    /// Returns a handle to EC2 for one mutation of the operation, with its retries. Calls wait for their tokens until
    /// the operation's deadline, while a client waits for it. If the clients of an operation left while it was in the
    /// queue, its place goes to the next equal operation.
    pub(crate) fn for_mutation(&self, op: &OpContext<'_>) -> Ec2Handle<E> {
        let place = self.places.get(&op.what).filter(|place| !place.is_used()).unwrap_or_default();
        self.places.insert(op.what.clone(), place.clone(), timeouts::KEPT_PLACE);
        self.ec2.for_mutation(op.deadline, op.waiters, place)
    }

    /// Reports that a spare token paid for an extra call.
    pub(crate) fn report_spare_call(&self, action: Action) {
        if let Some(observer) = &self.observer {
            observer.spared(action);
        }
    }

    /// Reports a wait that ended by time, see [`Observer::ended_by_time`].
    pub(crate) fn report_end_by_time(&self, action: Action, op: &OpContext<'_>) {
        tracing::warn!(step = %op, %action, "wait ended by time: EC2 lists a different attach time than it returned");
        if let Some(observer) = &self.observer {
            observer.ended_by_time(action);
        }
    }

    /// Returns the volume, or an error once its absence is proven. EC2 may not list a new volume yet.
    pub(crate) async fn volume_for_sure(&self, op: &OpContext<'_>, id: &VolumeId) -> Result<Volume, CloudError> {
        let object = Object::Volume(id.clone());
        let settled_at = self.recent.record_named(&object);
        self.describer
            .await_volume(op, FirstPoll::Now, id, |seen, sent| {
                let settled = sent >= settled_at;
                match seen {
                    Some(volume) if volume.exists() => {
                        self.recent.record_seen(&object);
                        Verdict::Done(volume)
                    }
                    None if !settled => Verdict::Waiting,
                    None | Some(_) => Verdict::Failed(CloudError::not_found(object.clone())),
                }
            })
            .await
    }

    /// Returns the snapshot, or `None` once its absence is proven. EC2 may not list a new snapshot yet.
    pub(crate) async fn snapshot_for_sure(
        &self,
        op: &OpContext<'_>,
        id: &SnapshotId,
    ) -> Result<Option<Snapshot>, CloudError> {
        let object = Object::Snapshot(id.clone());
        let settled_at = self.recent.record_named(&object);
        self.describer
            .await_snapshot(op, FirstPoll::Now, id, |found, sent| {
                if found.is_some() {
                    self.recent.record_seen(&object);
                } else if sent < settled_at {
                    return Verdict::Waiting;
                }
                Verdict::Done(found)
            })
            .await
    }
}
