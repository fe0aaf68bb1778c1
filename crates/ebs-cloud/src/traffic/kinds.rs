//! What can be asked for: one desk for each kind of object and of key.

use std::fmt;
use std::sync::Arc;

use ebs_ec2::{
    Action, Ec2, Instance, Modification, Page, PageRequest, Result, Snapshot, SnapshotQuery, Volume, VolumeQuery,
    VolumeStatus,
};
use ebs_types::{DriverName, InstanceId, SnapshotId, VolumeId};

use super::desk::Desk;
use super::lane::Lane;
use super::paced::Paced;

/// A kind of question that can be asked about several things at once.
pub(crate) trait Kind: fmt::Debug + Send + Sync + 'static {
    /// What is asked for.
    type Key: Ord + Clone + fmt::Debug + fmt::Display + Send + Sync + 'static;
    /// What is seen; several may belong to one key.
    type Item: Clone + fmt::Debug + Send + Sync + 'static;

    /// The bucket that pays for it.
    const LANE: Lane;

    /// One page of the answer about all the keys.
    fn page<E: Ec2>(
        ec2: &E,
        keys: &[Self::Key],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Self::Item>>> + Send;

    /// Which key it belongs to.
    fn key(item: &Self::Item) -> Option<Self::Key>;
}

/// Volumes by id.
#[derive(Debug)]
pub(crate) enum VolumesById {}

impl Kind for VolumesById {
    type Key = VolumeId;
    type Item = Volume;
    const LANE: Lane = Lane::of(Action::DescribeVolumes);

    async fn page<E: Ec2>(ec2: &E, keys: &[VolumeId], page: &PageRequest) -> Result<Page<Volume>> {
        ec2.describe_volumes(&VolumeQuery::FilterIds(keys.to_vec()), page).await
    }

    fn key(item: &Volume) -> Option<VolumeId> {
        Some(item.id.clone())
    }
}

/// Volumes by CSI name.
#[derive(Debug)]
pub(crate) enum VolumesByName {}

impl Kind for VolumesByName {
    type Key = String;
    type Item = Volume;
    const LANE: Lane = Lane::of(Action::DescribeVolumes);

    async fn page<E: Ec2>(ec2: &E, keys: &[String], page: &PageRequest) -> Result<Page<Volume>> {
        let query = VolumeQuery::Tag { key: DriverName::VOLUME_NAME_TAG.to_owned(), values: keys.to_vec() };
        ec2.describe_volumes(&query, page).await
    }

    fn key(item: &Volume) -> Option<String> {
        item.csi_name().map(str::to_owned)
    }
}

/// The latest modifications of volumes, by volume.
#[derive(Debug)]
pub(crate) enum Modifications {}

impl Kind for Modifications {
    type Key = VolumeId;
    type Item = Modification;
    const LANE: Lane = Lane::of(Action::DescribeVolumesModifications);

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

impl Kind for Statuses {
    type Key = VolumeId;
    type Item = VolumeStatus;
    const LANE: Lane = Lane::bare(Action::DescribeVolumeStatus);

    async fn page<E: Ec2>(ec2: &E, keys: &[VolumeId], page: &PageRequest) -> Result<Page<VolumeStatus>> {
        // EC2 takes no page length beside ids.
        let page = PageRequest { max_results: None, token: page.token.clone() };
        ec2.describe_volume_status(keys, &page).await
    }

    fn key(item: &VolumeStatus) -> Option<VolumeId> {
        Some(item.volume.clone())
    }
}

/// Instances by id.
#[derive(Debug)]
pub(crate) enum InstancesById {}

impl Kind for InstancesById {
    type Key = InstanceId;
    type Item = Instance;
    const LANE: Lane = Lane::of(Action::DescribeInstances);

    async fn page<E: Ec2>(ec2: &E, keys: &[InstanceId], page: &PageRequest) -> Result<Page<Instance>> {
        ec2.describe_instances(keys, page).await
    }

    fn key(item: &Instance) -> Option<InstanceId> {
        Some(item.id.clone())
    }
}

/// Snapshots by id.
#[derive(Debug)]
pub(crate) enum SnapshotsById {}

impl Kind for SnapshotsById {
    type Key = SnapshotId;
    type Item = Snapshot;
    const LANE: Lane = Lane::of(Action::DescribeSnapshots);

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

impl Kind for SnapshotsByName {
    type Key = String;
    type Item = Snapshot;
    const LANE: Lane = Lane::of(Action::DescribeSnapshots);

    async fn page<E: Ec2>(ec2: &E, keys: &[String], page: &PageRequest) -> Result<Page<Snapshot>> {
        let query = SnapshotQuery::Tag { key: DriverName::SNAPSHOT_NAME_TAG.to_owned(), values: keys.to_vec() };
        ec2.describe_snapshots(&query, page).await
    }

    fn key(item: &Snapshot) -> Option<String> {
        item.tags.get(DriverName::SNAPSHOT_NAME_TAG).cloned()
    }
}

/// All desks over one EC2.
#[derive(Debug)]
pub(crate) struct Desks<E> {
    pub(crate) volumes: Desk<VolumesById, E>,
    pub(crate) volume_names: Desk<VolumesByName, E>,
    pub(crate) modifications: Desk<Modifications, E>,
    pub(crate) statuses: Desk<Statuses, E>,
    pub(crate) instances: Desk<InstancesById, E>,
    pub(crate) snapshots: Desk<SnapshotsById, E>,
    pub(crate) snapshot_names: Desk<SnapshotsByName, E>,
}

impl<E: Ec2> Desks<E> {
    /// Over that EC2; with `batching` questions travel together.
    pub(crate) fn new(ec2: &Arc<Paced<E>>, batching: bool) -> Self {
        Self {
            volumes: Desk::new(Arc::clone(ec2), batching),
            volume_names: Desk::new(Arc::clone(ec2), batching),
            modifications: Desk::new(Arc::clone(ec2), batching),
            statuses: Desk::new(Arc::clone(ec2), batching),
            instances: Desk::new(Arc::clone(ec2), batching),
            snapshots: Desk::new(Arc::clone(ec2), batching),
            snapshot_names: Desk::new(Arc::clone(ec2), batching),
        }
    }
}
