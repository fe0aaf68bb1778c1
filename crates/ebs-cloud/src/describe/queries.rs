//! The kinds of describes that are batched: one batcher for each kind of object and of key.

use std::fmt;

use ebs_ec2::{
    Action, Ec2, Instance, Modification, Page, PageRequest, Result, Snapshot, SnapshotQuery, Volume, VolumeQuery,
    VolumeStatus,
};
use ebs_types::{DriverName, InstanceId, SnapshotId, VolumeId};

use crate::throttle::BucketKey;

/// A describe that takes several keys at once.
pub(crate) trait DescribeQuery: fmt::Debug + Send + Sync + 'static {
    type Key: Ord + Clone + fmt::Debug + fmt::Display + Send + Sync + 'static;
    /// What EC2 lists; several items may belong to one key.
    type Item: Clone + fmt::Debug + Send + Sync + 'static;

    const BUCKET: BucketKey;

    fn page<E: Ec2>(
        ec2: &E,
        keys: &[Self::Key],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Self::Item>>> + Send;

    fn key(item: &Self::Item) -> Option<Self::Key>;
}

#[derive(Debug)]
pub(crate) enum VolumesById {}

impl DescribeQuery for VolumesById {
    type Key = VolumeId;
    type Item = Volume;
    const BUCKET: BucketKey = BucketKey::of(Action::DescribeVolumes);

    async fn page<E: Ec2>(ec2: &E, keys: &[VolumeId], page: &PageRequest) -> Result<Page<Volume>> {
        ec2.describe_volumes(&VolumeQuery::FilterIds(keys.to_vec()), page).await
    }

    fn key(item: &Volume) -> Option<VolumeId> {
        Some(item.id.clone())
    }
}

#[derive(Debug)]
pub(crate) enum VolumesByName {}

impl DescribeQuery for VolumesByName {
    type Key = String;
    type Item = Volume;
    const BUCKET: BucketKey = BucketKey::of(Action::DescribeVolumes);

    async fn page<E: Ec2>(ec2: &E, keys: &[String], page: &PageRequest) -> Result<Page<Volume>> {
        let query = VolumeQuery::Tag { key: DriverName::VOLUME_NAME_TAG.to_owned(), values: keys.to_vec() };
        ec2.describe_volumes(&query, page).await
    }

    fn key(item: &Volume) -> Option<String> {
        item.csi_name().map(str::to_owned)
    }
}

#[derive(Debug)]
pub(crate) enum Modifications {}

impl DescribeQuery for Modifications {
    type Key = VolumeId;
    type Item = Modification;
    const BUCKET: BucketKey = BucketKey::of(Action::DescribeVolumesModifications);

    async fn page<E: Ec2>(ec2: &E, keys: &[VolumeId], page: &PageRequest) -> Result<Page<Modification>> {
        ec2.describe_modifications(keys, page).await
    }

    fn key(item: &Modification) -> Option<VolumeId> {
        Some(item.volume.clone())
    }
}

/// The status of volumes. EC2 has no filter for it.
#[derive(Debug)]
pub(crate) enum Statuses {}

impl DescribeQuery for Statuses {
    type Key = VolumeId;
    type Item = VolumeStatus;
    const BUCKET: BucketKey = BucketKey::unfiltered(Action::DescribeVolumeStatus);

    async fn page<E: Ec2>(ec2: &E, keys: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        // EC2 takes no page length beside ids.
        let page = PageRequest { max_results: None, token: page.token.clone() };
        ec2.describe_volume_status(keys, &page).await
    }

    fn key(item: &VolumeStatus) -> Option<VolumeId> {
        Some(item.volume.clone())
    }
}

#[derive(Debug)]
pub(crate) enum InstancesById {}

impl DescribeQuery for InstancesById {
    type Key = InstanceId;
    type Item = Instance;
    const BUCKET: BucketKey = BucketKey::of(Action::DescribeInstances);

    async fn page<E: Ec2>(ec2: &E, keys: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        ec2.describe_instances(keys, page).await
    }

    fn key(item: &Instance) -> Option<InstanceId> {
        Some(item.id.clone())
    }
}

#[derive(Debug)]
pub(crate) enum SnapshotsById {}

impl DescribeQuery for SnapshotsById {
    type Key = SnapshotId;
    type Item = Snapshot;
    const BUCKET: BucketKey = BucketKey::of(Action::DescribeSnapshots);

    async fn page<E: Ec2>(ec2: &E, keys: &[SnapshotId], page: &PageRequest) -> Result<Page<Snapshot>> {
        ec2.describe_snapshots(&SnapshotQuery::FilterIds(keys.to_vec()), page).await
    }

    fn key(item: &Snapshot) -> Option<SnapshotId> {
        Some(item.id.clone())
    }
}

/// Snapshots of the account by CSI name.
#[derive(Debug)]
pub(crate) enum SnapshotsByName {}

impl DescribeQuery for SnapshotsByName {
    type Key = String;
    type Item = Snapshot;
    const BUCKET: BucketKey = BucketKey::of(Action::DescribeSnapshots);

    async fn page<E: Ec2>(ec2: &E, keys: &[String], page: &PageRequest) -> Result<Page<Snapshot>> {
        let query = SnapshotQuery::Tag { key: DriverName::SNAPSHOT_NAME_TAG.to_owned(), values: keys.to_vec() };
        ec2.describe_snapshots(&query, page).await
    }

    fn key(item: &Snapshot) -> Option<String> {
        item.tags.get(DriverName::SNAPSHOT_NAME_TAG).cloned()
    }
}
