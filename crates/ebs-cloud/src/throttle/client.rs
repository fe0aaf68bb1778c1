//! The port behind the rate limiter: each call waits for its token here and reports its outcome.
//!
//! The port's methods have no parameter for a call's context, so [`RateLimited`] makes no call itself: it gives
//! [`Ec2Handle`]s, which implement the port and know the context of all calls that are made through them.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::{
    Action, AttachRequest, Attachment, Attachments, ClusterNodeDevice, ClusterNodes, CopyVolume, CreateSnapshot,
    CreateVolume, DetachRequest, Ec2, Ec2Error, ErrorClass, FastRestores, Instance, InstanceTypeInfo, Instances,
    LockSnapshot, Modification, ModifyVolume, Page, PageRequest, Result, Snapshot, SnapshotQuery, Snapshots, Volume,
    VolumeQuery, VolumeStatus, Volumes, Zone, Zones,
};
use ebs_types::{HyperPodNode, InstanceId, SnapshotId, Tags, VolumeId, ZoneName};
use tokio::time::Instant;

use super::bucket_key::BucketKey;
use super::call_context::CallContext;
use super::limiter::{Permit, RateLimiter};
use crate::bounds;
use crate::op::Op;

/// An EC2 that is called no more often than the rate limiter allows.
#[derive(Debug)]
pub(crate) struct RateLimited<E> {
    ec2: Arc<E>,
    limiter: Arc<RateLimiter>,
    last_mutation: Mutex<Option<Instant>>,
}

impl<E> RateLimited<E> {
    pub(crate) fn new(ec2: Arc<E>, limiter: Arc<RateLimiter>) -> Self {
        Self { ec2, limiter, last_mutation: Mutex::default() }
    }

    /// Calls a second that EC2 is believed to accept.
    pub(crate) fn rate(&self, bucket: BucketKey) -> f64 {
        self.limiter.rate(bucket)
    }

    /// True when this process has asked EC2 to change something within that time.
    pub(crate) fn has_mutated_within(&self, time: Duration) -> bool {
        self.last_mutation.lock().unwrap_or_else(PoisonError::into_inner).is_some_and(|at| at.elapsed() <= time)
    }

    /// For one mutation by an operation, and its repetitions.
    pub(crate) fn for_mutation(self: &Arc<Self>, op: &Op<'_>) -> Ec2Handle<E> {
        self.within(CallContext::mutation(op))
    }

    /// For one read that no operation waits for, and its repetitions.
    pub(crate) fn for_background_read(self: &Arc<Self>) -> Ec2Handle<E> {
        self.within(CallContext::background(bounds::DESCRIBE))
    }

    /// For one read that operations wait for, and its repetitions.
    pub(crate) fn for_poll(self: &Arc<Self>) -> Ec2Handle<E> {
        self.within(CallContext::poll(bounds::DESCRIBE))
    }

    fn within(self: &Arc<Self>, context: CallContext) -> Ec2Handle<E> {
        Ec2Handle { limited: Arc::clone(self), context, acquired: Mutex::default() }
    }
}

/// The rate-limited port in the context of one call.
#[derive(Debug)]
pub(crate) struct Ec2Handle<E> {
    limited: Arc<RateLimited<E>>,
    context: CallContext,
    /// A token that was acquired before its call, refunded if the handle is dropped without one.
    acquired: Mutex<Option<Permit>>,
}

impl<E> Ec2Handle<E> {
    /// Until when calls wait for their tokens.
    pub(crate) fn deadline(&self) -> Instant {
        self.context.deadline
    }

    /// Waits for the token of the first call on that bucket; `None` at the deadline.
    pub(crate) async fn acquired(self, bucket: BucketKey) -> Option<Self> {
        let permit = self.limited.limiter.acquire(bucket, &self.context).await?;
        Some(self.with(permit))
    }

    /// Takes a spare token for the first call on that bucket, if there is one.
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
        if bucket.action().mutates() {
            *self.limited.last_mutation.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        }
        // On the heap, and only now: an operation spends its time waiting, and must be small meanwhile.
        let outcome = Box::pin(call(&self.limited.ec2)).await;
        permit.report(outcome.as_ref().err().map(|e| e.class));
        outcome
    }
}

/// The rate limiter's own refusal is a throttle too.
fn not_sent(action: Action) -> Ec2Error {
    let message = "not sent, because EC2 is believed to take no more such calls until the time for this one is over";
    Ec2Error::new(action, ErrorClass::Throttled, message)
}

/// A describe with a filter has the larger bucket; so has one with a page length.
fn describe_bucket(action: Action, filtered: bool, page: &PageRequest) -> BucketKey {
    if filtered || page.max_results.is_some() { BucketKey::of(action) } else { BucketKey::unfiltered(action) }
}

impl<E: Ec2> Volumes for Ec2Handle<E> {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        self.call(BucketKey::of(Action::CreateVolume), |ec2| ec2.create_volume(request)).await
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        self.call(BucketKey::of(Action::CopyVolumes), |ec2| ec2.copy_volume(request)).await
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        self.call(BucketKey::of(Action::DeleteVolume), |ec2| ec2.delete_volume(id)).await
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let bucket = match query {
            VolumeQuery::Ids(_) => BucketKey::unfiltered(Action::DescribeVolumes),
            VolumeQuery::FilterIds(_) | VolumeQuery::Tag { .. } => BucketKey::of(Action::DescribeVolumes),
            VolumeQuery::All => describe_bucket(Action::DescribeVolumes, false, page),
        };
        self.call(bucket, |ec2| ec2.describe_volumes(query, page)).await
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        self.call(BucketKey::of(Action::ModifyVolume), |ec2| ec2.modify_volume(request)).await
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        let bucket = BucketKey::of(Action::DescribeVolumesModifications);
        self.call(bucket, |ec2| ec2.describe_modifications(volumes, page)).await
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        let bucket = BucketKey::unfiltered(Action::DescribeVolumeStatus);
        self.call(bucket, |ec2| ec2.describe_volume_status(volumes, page)).await
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        self.call(BucketKey::of(Action::CreateTags), |ec2| ec2.create_tags(resource, tags)).await
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        self.call(BucketKey::of(Action::DeleteTags), |ec2| ec2.delete_tags(resource, keys)).await
    }
}

impl<E: Ec2> Attachments for Ec2Handle<E> {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        self.call(BucketKey::of(Action::AttachVolume), |ec2| ec2.attach_volume(request)).await
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        self.call(BucketKey::of(Action::DetachVolume), |ec2| ec2.detach_volume(request)).await
    }
}

impl<E: Ec2> ClusterNodes for Ec2Handle<E> {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let bucket = BucketKey::of(Action::AttachClusterNodeVolume);
        self.call(bucket, |ec2| ec2.attach_cluster_node_volume(node, volume)).await
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        let bucket = BucketKey::of(Action::DetachClusterNodeVolume);
        self.call(bucket, |ec2| ec2.detach_cluster_node_volume(node, volume)).await
    }
}

impl<E: Ec2> Snapshots for Ec2Handle<E> {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        self.call(BucketKey::of(Action::CreateSnapshot), |ec2| ec2.create_snapshot(request)).await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.call(BucketKey::of(Action::DeleteSnapshot), |ec2| ec2.delete_snapshot(id)).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let bucket = BucketKey::of(Action::EnableFastSnapshotRestores);
        self.call(bucket, |ec2| ec2.enable_fast_snapshot_restores(id, zones)).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        self.call(BucketKey::of(Action::LockSnapshot), |ec2| ec2.lock_snapshot(request)).await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let filtered = !matches!(query, SnapshotQuery::Owned { volume: None });
        let bucket = describe_bucket(Action::DescribeSnapshots, filtered, page);
        self.call(bucket, |ec2| ec2.describe_snapshots(query, page)).await
    }
}

impl<E: Ec2> Instances for Ec2Handle<E> {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        self.call(BucketKey::of(Action::DescribeInstances), |ec2| ec2.describe_instances(ids, page)).await
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let bucket = BucketKey::unfiltered(Action::DescribeInstanceTypes);
        self.call(bucket, |ec2| ec2.describe_instance_type(instance_type)).await
    }
}

impl<E: Ec2> Zones for Ec2Handle<E> {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        self.call(BucketKey::unfiltered(Action::DescribeAvailabilityZones), |ec2| ec2.describe_zones()).await
    }

    async fn check_access(&self) -> Result<()> {
        self.call(BucketKey::unfiltered(Action::DescribeAvailabilityZones), |ec2| ec2.check_access()).await
    }
}
