//! The operations' common ground.

use std::sync::Arc;
use std::time::SystemTime;

use ebs_ec2::{Ec2, Observer, Zones as _};
use ebs_types::ConnectionId;

use crate::attachment::{DeviceNames, EbsCardCounts, InstanceCache, PairMemory, PendingDetach, PendingDetaches};
use crate::describe::{DescribeBatchers, Lookups, ResourceWaiter};
use crate::lease_terms::Sidecar;
use crate::policy_observer::PolicyObserver;
use crate::recent_writes::RecentWrites;
use crate::snapshot::SnapshotMemory;
use crate::throttle::{RateLimited, RateLimiter};
use crate::volume::{Initialization, IopsLimitProbe, VolumeMemory, Zones};
use crate::wall_clock::WallClock;
use crate::{CloudConfig, CloudError};

/// EBS policy over an EC2.
///
/// All methods may run concurrently; the caller sees to it that at most one mutating operation runs for a key
/// (volume name, volume, volume and instance, snapshot name). Each operation has its own bound and ends with
/// [`CloudError::InProgress`], [`CloudError::OutcomeUnknown`] or [`CloudError::Unavailable`] at its end.
///
/// **Cancellation.** Methods that take [`ebs_types::Waiters`] must be run to their end, never dropped. Without waiters
/// they start no further mutation and end with [`CloudError::Abandoned`] before it, but go on looking to their own end;
/// only when another operation is to run in their place ([`ebs_types::Waiters::supersede`]) do they end at once.
///
/// What it remembers (client tokens that had to change, device names in use, limits) is for this process only: a
/// process that starts anew finds everything out again from EC2.
#[derive(Debug)]
pub struct Cloud<E> {
    pub(crate) ec2: Arc<RateLimited<E>>,
    pub(crate) config: CloudConfig,
    pub(crate) clock: WallClock,
    pub(crate) recent: RecentWrites,
    pub(crate) lookups: Lookups<E>,
    pub(crate) waiter: ResourceWaiter<E>,
    pub(crate) zones: Zones<RateLimited<E>>,
    pub(crate) iops_limits: IopsLimitProbe<RateLimited<E>>,
    pub(crate) volumes: VolumeMemory,
    pub(crate) snapshots: SnapshotMemory,
    pub(crate) initialization: Initialization,
    pub(crate) devices: DeviceNames,
    pub(crate) instances: InstanceCache,
    pub(crate) pairs: PairMemory,
    pub(crate) pending_detaches: PendingDetaches,
    pub(crate) card_counts: EbsCardCounts<RateLimited<E>>,
    pub(crate) observer: PolicyObserver,
}

impl<E: Ec2> Cloud<E> {
    /// Policy over that EC2. Call it inside a tokio runtime, whose clock it uses. One for a process: it keeps the
    /// process's one view of how much EC2 takes.
    pub fn new(ec2: Arc<E>, config: CloudConfig) -> Self {
        Self::build(ec2, config, None)
    }

    /// The same; the observer is told how long calls were held back ([`Observer::waited`]), of spare calls
    /// ([`Observer::spared`]) and of waits that were ended by time ([`Observer::ended_by_time`]).
    pub fn observed(ec2: Arc<E>, config: CloudConfig, observer: Arc<dyn Observer>) -> Self {
        Self::build(ec2, config, Some(observer))
    }

    fn build(ec2: Arc<E>, config: CloudConfig, observer: Option<Arc<dyn Observer>>) -> Self {
        let policy_observer = PolicyObserver(observer.clone());
        let ec2 = Arc::new(RateLimited::new(ec2, Arc::new(RateLimiter::new(observer))));
        let batchers = Arc::new(DescribeBatchers::new(&ec2, config.batching));
        Self {
            clock: WallClock::from(config.time_of_day.unwrap_or_else(SystemTime::now)),
            config,
            recent: RecentWrites::new(),
            lookups: Lookups::new(Arc::clone(&batchers)),
            waiter: ResourceWaiter::new(batchers),
            zones: Zones::new(Arc::clone(&ec2)),
            iops_limits: IopsLimitProbe::new(Arc::clone(&ec2)),
            volumes: VolumeMemory::default(),
            snapshots: SnapshotMemory::default(),
            initialization: Initialization::default(),
            devices: DeviceNames::default(),
            instances: InstanceCache::default(),
            pairs: PairMemory::default(),
            pending_detaches: PendingDetaches::default(),
            card_counts: EbsCardCounts::new(Arc::clone(&ec2)),
            observer: policy_observer,
            ec2,
        }
    }

    /// A mutating request has come over that connection, if its connection is known. To be told before the operation that
    /// the request starts or joins: it tells how long this process has been the only one that the sidecar asks.
    pub fn note_request(&self, sidecar: Sidecar, connection: Option<ConnectionId>) {
        self.recent.note_request(sidecar, connection);
    }

    /// The detachments that were asked for and have not ended.
    pub fn pending_detaches(&self) -> Vec<PendingDetach> {
        self.pending_detaches.all()
    }

    /// Asks EC2 once, without retry, whether it answers and knows us.
    ///
    /// # Errors
    /// [`CloudError::Unavailable`], [`CloudError::Unauthorized`].
    pub async fn check_access(&self) -> Result<(), CloudError> {
        let step = "check the access to EC2";
        self.ec2.check_access().await.map_err(|e| crate::call::read_refused(step, e))
    }
}
