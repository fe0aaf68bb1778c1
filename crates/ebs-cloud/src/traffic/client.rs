//! The port behind the rate limiter. The port's methods have no parameter for a call's context, so [`RateLimited`]
//! returns [`Ec2Handle`]s, which implement the port and carry the context of their calls.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::{
    Action, AttachRequest, Attachment, Attachments, ClusterNodeDevice, ClusterNodes, CopyVolume, CreateSnapshot,
    CreateVolume, DetachRequest, Ec2, Ec2Error, ErrorClass, FastRestores, HyperPodNode, Instance, InstanceId,
    InstanceTypeInfo, Instances, LockSnapshot, Modification, ModifyVolume, Observer, Page, PageRequest, Result,
    Snapshot, SnapshotId, SnapshotLock, SnapshotQuery, Snapshots, Tags, Volume, VolumeId, VolumeQuery, VolumeStatus,
    Volumes, Waiters, Zone, ZoneName, Zones,
};
use tokio::time::Instant;

use super::bucket_key::BucketKey;
use super::call_context::{CallContext, QueuePlace};
use super::rate_limiter::{Permit, RateLimiter};
use crate::timeouts::DESCRIBE_TIMEOUT;

/// An EC2 port behind the rate limiter. Create one per process, because it estimates what EC2 accepts.
#[derive(Debug)]
pub struct RateLimited<E> {
    ec2: Arc<E>,
    limiter: Arc<RateLimiter>,
}

impl<E> RateLimited<E> {
    /// Creates a rate limiter with full buckets, which reports how long calls waited ([`Observer::waited`]).
    pub fn new(ec2: Arc<E>, observer: Option<Arc<dyn Observer>>) -> Self {
        Self { ec2, limiter: Arc::new(RateLimiter::new(observer)) }
    }

    pub(crate) fn rate(&self, bucket: BucketKey) -> f64 {
        self.limiter.rate(bucket)
    }

    /// Returns a handle for one mutation and its retries. Its calls wait for their tokens at `place` in the queue,
    /// until the deadline or until no client waits. After that they fail as throttled, without being sent.
    pub(crate) fn for_mutation(self: &Arc<Self>, end: Instant, waiters: &Waiters, place: QueuePlace) -> Ec2Handle<E> {
        self.within(CallContext::mutation(end, waiters, place))
    }

    /// Returns a handle with low priority for a read that no operation waits for, within [`DESCRIBE_TIMEOUT`].
    pub fn for_background_read(self: &Arc<Self>) -> Ec2Handle<E> {
        self.within(CallContext::background(DESCRIBE_TIMEOUT))
    }

    /// Returns a handle with the priority of mutations, for a read that an operation waits for.
    pub(crate) fn for_awaited_read(self: &Arc<Self>, bound: Duration) -> Ec2Handle<E> {
        self.within(CallContext::poll(bound))
    }

    fn within(self: &Arc<Self>, context: CallContext) -> Ec2Handle<E> {
        Ec2Handle { limited: Arc::clone(self), context, acquired: Mutex::default() }
    }
}

/// The rate-limited port for one call and its retries, which keep the call's position in the queue. If a call has no
/// token at the deadline, it fails with [`ErrorClass::Throttled`] and is not sent.
///
/// Cancellation: a call dropped while it waits for its token was not sent. EC2 may carry out a call dropped later.
#[derive(Debug)]
pub struct Ec2Handle<E> {
    limited: Arc<RateLimited<E>>,
    context: CallContext,
    /// The token for the first call, if it was acquired in advance. Dropping the handle without a call refunds it.
    acquired: Mutex<Option<Permit>>,
}

impl<E> Ec2Handle<E> {
    pub(crate) fn deadline(&self) -> Instant {
        self.context.deadline
    }

    /// Waits for the bucket's token for the first call. Returns `None` at the deadline.
    pub(crate) async fn acquired(self, bucket: BucketKey) -> Option<Self> {
        let permit = self.limited.limiter.acquire(bucket, &self.context).await?;
        Some(self.with(permit))
    }

    /// Takes a spare token for the first call: one that no other call waits for or needs soon. Returns `None` if the
    /// bucket has no such token.
    pub(crate) fn acquired_spare(self, bucket: BucketKey) -> Option<Self> {
        let permit = self.limited.limiter.acquire_spare(bucket)?;
        Some(self.with(permit))
    }

    fn with(self, permit: Permit) -> Self {
        Self { acquired: Mutex::new(Some(permit)), ..self }
    }

    async fn call<'a, T, F: Future<Output = Result<T>> + Send>(
        &'a self,
        bucket: BucketKey,
        call: impl FnOnce(&'a E) -> F + Send,
    ) -> Result<T>
    where
        E: Sync,
    {
        let acquired =
            self.acquired.lock().unwrap_or_else(PoisonError::into_inner).take_if(|permit| permit.is_for(bucket));
        let permit = match acquired {
            Some(permit) => Some(permit),
            None => self.limited.limiter.acquire(bucket, &self.context).await,
        };
        let Some(mut permit) = permit else { return Err(not_sent(bucket.action())) };
        permit.spend();
        self.context.mark_place_used();
        // The call's future is boxed only now: an operation mostly waits, and its future should be small while it does.
        let outcome = Box::pin(call(&self.limited.ec2)).await;
        permit.report(outcome.as_ref().err().map(|e| e.class));
        outcome
    }
}

fn not_sent(action: Action) -> Ec2Error {
    let message = "not sent: the rate limiter had no capacity before the call's time limit";
    Ec2Error::new(action, ErrorClass::Throttled, message)
}

/// Returns the bucket of DescribeSnapshots. A filter or a page length selects the larger one.
fn snapshots_bucket(query: &SnapshotQuery, page: &PageRequest) -> BucketKey {
    let is_unfiltered = matches!(query, SnapshotQuery::Owned { volume: None }) && page.max_results.is_none();
    let bucket = if is_unfiltered { BucketKey::unfiltered } else { BucketKey::of };
    bucket(Action::DescribeSnapshots)
}

macro_rules! calls {
    ($($name:ident($($argument:ident: $type:ty),*) -> $reply:ty => $bucket:expr;)*) => {$(
        async fn $name(&self $(, $argument: $type)*) -> Result<$reply> {
            self.call($bucket, |ec2| ec2.$name($($argument),*)).await
        }
    )*};
}

impl<E: Ec2> Volumes for Ec2Handle<E> {
    calls! {
        create_volume(request: &CreateVolume) -> Volume => BucketKey::of(Action::CreateVolume);
        copy_volume(request: &CopyVolume) -> Volume => BucketKey::of(Action::CopyVolumes);
        delete_volume(id: &VolumeId) -> () => BucketKey::of(Action::DeleteVolume);
        describe_volumes(query: &VolumeQuery, page: &PageRequest) -> Page<Volume> => BucketKey::of(Action::DescribeVolumes);
        modify_volume(request: &ModifyVolume) -> Modification => BucketKey::of(Action::ModifyVolume);
        describe_modifications(volumes: &[VolumeId], page: &PageRequest) -> Page<Modification>
            => BucketKey::of(Action::DescribeVolumesModifications);
        describe_volume_status(volumes: &[VolumeId], page: &PageRequest) -> Page<VolumeStatus>
            => BucketKey::unfiltered(Action::DescribeVolumeStatus);
        create_tags(resource: &str, tags: &Tags) -> () => BucketKey::of(Action::CreateTags);
        delete_tags(resource: &str, keys: &[String]) -> () => BucketKey::of(Action::DeleteTags);
    }
}

impl<E: Ec2> Attachments for Ec2Handle<E> {
    calls! {
        attach_volume(request: &AttachRequest) -> Attachment => BucketKey::of(Action::AttachVolume);
        detach_volume(request: &DetachRequest) -> Attachment => BucketKey::of(Action::DetachVolume);
    }
}

impl<E: Ec2> ClusterNodes for Ec2Handle<E> {
    calls! {
        attach_cluster_node_volume(node: &HyperPodNode, volume: &VolumeId) -> ClusterNodeDevice
            => BucketKey::of(Action::AttachClusterNodeVolume);
        detach_cluster_node_volume(node: &HyperPodNode, volume: &VolumeId) -> ()
            => BucketKey::of(Action::DetachClusterNodeVolume);
    }
}

impl<E: Ec2> Snapshots for Ec2Handle<E> {
    calls! {
        create_snapshot(request: &CreateSnapshot) -> Snapshot => BucketKey::of(Action::CreateSnapshot);
        delete_snapshot(id: &SnapshotId) -> () => BucketKey::of(Action::DeleteSnapshot);
        enable_fast_snapshot_restores(id: &SnapshotId, zones: &[ZoneName]) -> FastRestores
            => BucketKey::of(Action::EnableFastSnapshotRestores);
        lock_snapshot(request: &LockSnapshot) -> () => BucketKey::of(Action::LockSnapshot);
        describe_lock(id: &SnapshotId) -> Option<SnapshotLock> => BucketKey::unfiltered(Action::DescribeLockedSnapshots);
        describe_snapshots(query: &SnapshotQuery, page: &PageRequest) -> Page<Snapshot>
            => snapshots_bucket(query, page);
    }
}

impl<E: Ec2> Instances for Ec2Handle<E> {
    calls! {
        describe_instances(ids: &[InstanceId], page: &PageRequest) -> Page<Instance>
            => BucketKey::of(Action::DescribeInstances);
        describe_instance_type(instance_type: &str) -> Option<InstanceTypeInfo>
            => BucketKey::unfiltered(Action::DescribeInstanceTypes);
    }
}

impl<E: Ec2> Zones for Ec2Handle<E> {
    calls! {
        describe_zones() -> Vec<Zone> => BucketKey::unfiltered(Action::DescribeAvailabilityZones);
        check_access() -> () => BucketKey::unfiltered(Action::DescribeAvailabilityZones);
    }
}
