//! The port behind the rate limiter: each call waits for its token here and reports its outcome, so that no part of the
//! policy can forget to.

use std::sync::Arc;

use ebs_ec2::{
    Action, AttachRequest, Attachment, Attachments, ClusterNodeDevice, ClusterNodes, CopyVolume, CreateSnapshot,
    CreateVolume, DetachRequest, Ec2, Ec2Error, ErrorClass, FastRestores, Instance, InstanceTypeInfo, Instances,
    LockSnapshot, Modification, ModifyVolume, Page, PageRequest, Result, Snapshot, SnapshotQuery, Snapshots, Volume,
    VolumeQuery, VolumeStatus, Volumes, Zone, Zones,
};
use ebs_types::{HyperPodNode, InstanceId, SnapshotId, Tags, VolumeId, ZoneName};

use super::bucket_key::BucketKey;
use super::call_context::CallContext;
use super::limiter::{Permit, RateLimiter};

/// An EC2 that is called no more often than the rate limiter allows.
#[derive(Debug)]
pub(crate) struct RateLimited<E> {
    ec2: Arc<E>,
    limiter: Arc<RateLimiter>,
}

impl<E> RateLimited<E> {
    /// That EC2 behind that rate limiter.
    pub(crate) fn new(ec2: Arc<E>, limiter: Arc<RateLimiter>) -> Self {
        Self { ec2, limiter }
    }

    /// Its rate limiter.
    pub(crate) fn limiter(&self) -> &Arc<RateLimiter> {
        &self.limiter
    }

    async fn call<T, F: Future<Output = Result<T>> + Send>(
        &self,
        bucket: BucketKey,
        call: impl FnOnce() -> F + Send,
    ) -> Result<T> {
        let context = CallContext::current();
        let permit = match Permit::take_scoped(bucket) {
            Some(permit) => Some(permit),
            None => self.limiter.acquire(bucket, &context).await,
        };
        let Some(mut permit) = permit else { return Err(not_sent(bucket.action())) };
        permit.spend();
        // On the heap, and only now: an operation spends its time waiting, and must be small meanwhile.
        let outcome = Box::pin(call()).await;
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

impl<E: Ec2> Volumes for RateLimited<E> {
    async fn create_volume(&self, request: &CreateVolume) -> Result<Volume> {
        self.call(BucketKey::of(Action::CreateVolume), || self.ec2.create_volume(request)).await
    }

    async fn copy_volume(&self, request: &CopyVolume) -> Result<Volume> {
        self.call(BucketKey::of(Action::CopyVolumes), || self.ec2.copy_volume(request)).await
    }

    async fn delete_volume(&self, id: &VolumeId) -> Result<()> {
        self.call(BucketKey::of(Action::DeleteVolume), || self.ec2.delete_volume(id)).await
    }

    async fn describe_volumes(&self, query: &VolumeQuery, page: &PageRequest) -> Result<Page<Volume>> {
        let bucket = match query {
            VolumeQuery::Ids(_) => BucketKey::unfiltered(Action::DescribeVolumes),
            VolumeQuery::FilterIds(_) | VolumeQuery::Tag { .. } => BucketKey::of(Action::DescribeVolumes),
            VolumeQuery::All => describe_bucket(Action::DescribeVolumes, false, page),
        };
        self.call(bucket, || self.ec2.describe_volumes(query, page)).await
    }

    async fn modify_volume(&self, request: &ModifyVolume) -> Result<Modification> {
        self.call(BucketKey::of(Action::ModifyVolume), || self.ec2.modify_volume(request)).await
    }

    async fn describe_modifications(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        let bucket = BucketKey::of(Action::DescribeVolumesModifications);
        self.call(bucket, || self.ec2.describe_modifications(volumes, page)).await
    }

    async fn describe_volume_status(&self, volumes: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        let bucket = BucketKey::unfiltered(Action::DescribeVolumeStatus);
        self.call(bucket, || self.ec2.describe_volume_status(volumes, page)).await
    }

    async fn create_tags(&self, resource: &str, tags: &Tags) -> Result<()> {
        self.call(BucketKey::of(Action::CreateTags), || self.ec2.create_tags(resource, tags)).await
    }

    async fn delete_tags(&self, resource: &str, keys: &[String]) -> Result<()> {
        self.call(BucketKey::of(Action::DeleteTags), || self.ec2.delete_tags(resource, keys)).await
    }
}

impl<E: Ec2> Attachments for RateLimited<E> {
    async fn attach_volume(&self, request: &AttachRequest) -> Result<Attachment> {
        self.call(BucketKey::of(Action::AttachVolume), || self.ec2.attach_volume(request)).await
    }

    async fn detach_volume(&self, request: &DetachRequest) -> Result<Attachment> {
        self.call(BucketKey::of(Action::DetachVolume), || self.ec2.detach_volume(request)).await
    }
}

impl<E: Ec2> ClusterNodes for RateLimited<E> {
    async fn attach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<ClusterNodeDevice> {
        let bucket = BucketKey::of(Action::AttachClusterNodeVolume);
        self.call(bucket, || self.ec2.attach_cluster_node_volume(node, volume)).await
    }

    async fn detach_cluster_node_volume(&self, node: &HyperPodNode, volume: &VolumeId) -> Result<()> {
        let bucket = BucketKey::of(Action::DetachClusterNodeVolume);
        self.call(bucket, || self.ec2.detach_cluster_node_volume(node, volume)).await
    }
}

impl<E: Ec2> Snapshots for RateLimited<E> {
    async fn create_snapshot(&self, request: &CreateSnapshot) -> Result<Snapshot> {
        self.call(BucketKey::of(Action::CreateSnapshot), || self.ec2.create_snapshot(request)).await
    }

    async fn delete_snapshot(&self, id: &SnapshotId) -> Result<()> {
        self.call(BucketKey::of(Action::DeleteSnapshot), || self.ec2.delete_snapshot(id)).await
    }

    async fn enable_fast_snapshot_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> Result<FastRestores> {
        let bucket = BucketKey::of(Action::EnableFastSnapshotRestores);
        self.call(bucket, || self.ec2.enable_fast_snapshot_restores(id, zones)).await
    }

    async fn lock_snapshot(&self, request: &LockSnapshot) -> Result<()> {
        self.call(BucketKey::of(Action::LockSnapshot), || self.ec2.lock_snapshot(request)).await
    }

    async fn describe_snapshots(&self, query: &SnapshotQuery, page: &PageRequest) -> Result<Page<Snapshot>> {
        let filtered = !matches!(query, SnapshotQuery::Owned { volume: None });
        let bucket = describe_bucket(Action::DescribeSnapshots, filtered, page);
        self.call(bucket, || self.ec2.describe_snapshots(query, page)).await
    }
}

impl<E: Ec2> Instances for RateLimited<E> {
    async fn describe_instances(&self, ids: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        self.call(BucketKey::of(Action::DescribeInstances), || self.ec2.describe_instances(ids, page)).await
    }

    async fn describe_instance_type(&self, instance_type: &str) -> Result<Option<InstanceTypeInfo>> {
        let bucket = BucketKey::unfiltered(Action::DescribeInstanceTypes);
        self.call(bucket, || self.ec2.describe_instance_type(instance_type)).await
    }
}

impl<E: Ec2> Zones for RateLimited<E> {
    async fn describe_zones(&self) -> Result<Vec<Zone>> {
        self.call(BucketKey::unfiltered(Action::DescribeAvailabilityZones), || self.ec2.describe_zones()).await
    }

    async fn check_access(&self) -> Result<()> {
        self.call(BucketKey::unfiltered(Action::DescribeAvailabilityZones), || self.ec2.check_access()).await
    }
}
