//! The state that all services share: one EC2, the memory of recent writes, and the configuration.

use std::sync::Arc;

use ebs_calls::{DescribeBatchers, Ec2Handle, Expiring, QueuePlace, RateLimited};
use ebs_ec2::{Ec2, Observer, Snapshot, Volume};
use ebs_types::{SnapshotId, VolumeId};

use crate::bounds;
use crate::describe::{FirstPoll, Lookups, ResourceWaiter, Verdict, Zones};
use crate::error::CloudError;
use crate::object::Object;
use crate::op::Op;
use crate::policy_observer::PolicyObserver;
use crate::recent_writes::RecentWrites;
use crate::spec::CloudConfig;
use crate::wall_clock::WallClock;

/// Create one per process: it has the process's rate limiter.
#[derive(Debug)]
pub(crate) struct Context<E> {
    pub(crate) ec2: Arc<RateLimited<E>>,
    pub(crate) config: CloudConfig,
    pub(crate) clock: WallClock,
    pub(crate) recent: RecentWrites,
    pub(crate) lookups: Lookups<E>,
    pub(crate) waiter: ResourceWaiter<E>,
    pub(crate) zones: Zones<E>,
    pub(crate) observer: PolicyObserver,
    /// Places of operations in the queues of the rate limiter, by the text of the operation.
    places: Expiring<String, QueuePlace>,
}

impl<E: Ec2> Context<E> {
    pub(crate) fn new(ec2: Arc<E>, config: CloudConfig, observer: Option<Arc<dyn Observer>>) -> Self {
        let ec2 = Arc::new(RateLimited::new(ec2, observer.clone()));
        let batchers = Arc::new(DescribeBatchers::new(&ec2, config.batching));
        Self {
            clock: WallClock::showing(config.time_of_day),
            config,
            recent: RecentWrites::new(),
            lookups: Lookups::new(Arc::clone(&batchers)),
            waiter: ResourceWaiter::new(batchers),
            zones: Zones::new(Arc::clone(&ec2)),
            observer: PolicyObserver(observer),
            places: Expiring::default(),
            ec2,
        }
    }

    /// Returns a handle to EC2 for one mutation of the operation, with its retries. Calls wait for their tokens until
    /// the operation's deadline, while a client waits for it. If the clients of an operation left while it was in the
    /// queue, its place goes to the next equal operation.
    pub(crate) fn for_mutation(&self, op: &Op<'_>) -> Ec2Handle<E> {
        let place = self.places.get(&op.what).filter(|place| !place.is_used()).unwrap_or_default();
        self.places.insert(op.what.clone(), place.clone(), bounds::KEPT_PLACE);
        self.ec2.for_mutation(op.deadline, op.waiters, place)
    }

    /// Returns the volume, or an error once its absence is proven. EC2 may not list a new volume yet.
    pub(crate) async fn volume_for_sure(&self, op: &Op<'_>, id: &VolumeId) -> Result<Volume, CloudError> {
        let object = Object::Volume(id.clone());
        let settled_at = self.recent.heard_of(&object);
        self.waiter
            .volume(op, FirstPoll::Now, id, |seen, sent| {
                let settled = sent >= settled_at;
                match seen {
                    Some(volume) if volume.exists() => {
                        self.recent.note_seen(&object);
                        Verdict::Done(volume)
                    }
                    None if !settled => Verdict::Waiting,
                    None | Some(_) => Verdict::Failed(CloudError::not_found(object.clone())),
                }
            })
            .await
    }

    /// Returns the snapshot, or `None` once its absence is proven. EC2 may not list a new snapshot yet.
    pub(crate) async fn snapshot_for_sure(&self, op: &Op<'_>, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        let object = Object::Snapshot(id.clone());
        let settled_at = self.recent.heard_of(&object);
        self.waiter
            .snapshot(op, FirstPoll::Now, id, |found, sent| {
                if found.is_some() {
                    self.recent.note_seen(&object);
                } else if sent < settled_at {
                    return Verdict::Waiting;
                }
                Verdict::Done(found)
            })
            .await
    }
}
