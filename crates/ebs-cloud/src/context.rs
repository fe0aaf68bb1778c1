//! The state that all services share: the EC2 port, the memory of recent writes, and the configuration.

use std::fmt;
use std::sync::Arc;

use ebs_ec2::{Action, Ec2, Observer, Snapshot, SnapshotId, Volume, VolumeId};

use crate::describe::{Describer, FirstPoll, Verdict, Zones};
use crate::error::{CloudError, Result};
use crate::object::Object;
use crate::op_context::OpContext;
use crate::recent_writes::RecentWrites;
use crate::spec::CloudConfig;
use crate::timeouts;
use crate::traffic::{DescribeBatchers, Ec2Handle, Expiring, QueuePlace, RateLimited};
use crate::wall_clock::WallClock;

pub(crate) struct Context<E> {
    pub(crate) ec2: Arc<RateLimited<E>>,
    pub(crate) config: CloudConfig,
    pub(crate) clock: WallClock,
    pub(crate) recent: RecentWrites,
    pub(crate) describer: Describer<E>,
    pub(crate) zones: Zones<E>,
    observer: Option<Arc<dyn Observer>>,
    /// Each operation's place in the rate limiter's queues, by the operation's description.
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

    /// Returns an EC2 handle for one mutation of the operation and its retries. If all clients leave while the
    /// operation is queued, the next equal operation takes over its place.
    pub(crate) fn for_mutation(&self, op: &OpContext<'_>) -> Ec2Handle<E> {
        let place = self.places.get(&op.what).filter(|place| !place.is_used()).unwrap_or_default();
        self.places.insert(op.what.clone(), place.clone(), timeouts::KEPT_PLACE);
        self.ec2.for_mutation(op.deadline, op.waiters, place)
    }

    pub(crate) fn report_spare_call(&self, action: Action) {
        if let Some(observer) = &self.observer {
            observer.spared(action);
        }
    }

    pub(crate) fn report_end_by_time(&self, action: Action, op: &OpContext<'_>) {
        tracing::warn!(step = %op, %action, "waited the maximum time, because EC2 lists a different attach time than it returned");
        if let Some(observer) = &self.observer {
            observer.ended_by_time(action);
        }
    }

    /// Returns the volume, or an error once EC2 has proven its absence. EC2 may not list a new volume yet.
    pub(crate) async fn volume_for_sure(&self, op: &OpContext<'_>, id: &VolumeId) -> Result<Volume> {
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

    /// Returns the snapshot, or `None` once EC2 has proven its absence. EC2 may not list a new snapshot yet.
    pub(crate) async fn snapshot_for_sure(&self, op: &OpContext<'_>, id: &SnapshotId) -> Result<Option<Snapshot>> {
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
