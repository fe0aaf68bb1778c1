//! The kinds of describe calls. Each combination of object and key has a batcher.

use std::fmt;

use ebs_ec2::{
    Action, DriverName, Ec2, Instance, InstanceId, Modification, Page, PageRequest, Result, Snapshot, SnapshotId,
    SnapshotQuery, Volume, VolumeId, VolumeQuery, VolumeStatus,
};

use super::bucket_key::BucketKey;

pub(crate) trait DescribeQuery: fmt::Debug + Send + Sync + 'static {
    /// An id or a name.
    type Key: Ord + Clone + fmt::Debug + fmt::Display + Send + Sync + 'static;
    /// The type of the objects. Several objects may belong to one key.
    type Item: Clone + fmt::Debug + Send + Sync + 'static;

    const BUCKET: BucketKey;

    /// Makes one call for a page of the objects with the keys. There are at most [`ebs_ec2::MAX_FILTER_VALUES`] keys.
    fn page<E: Ec2>(
        ec2: &E,
        keys: &[Self::Key],
        page: &PageRequest,
    ) -> impl Future<Output = Result<Page<Self::Item>>> + Send;

    /// Returns the key of an item, or `None` if no subscriber can have this key.
    fn key(item: &Self::Item) -> Option<Self::Key>;
}

/// Defines a kind of describe call by its key, its item, its bucket, the call for one page, and the key of an item.
macro_rules! query {
    (
        $(#[$doc:meta])* $name:ident: $key:ty => $item:ty, $bucket:expr,
        |$ec2:ident, $keys:ident, $page:ident| $call:expr, |$of:ident| $key_of:expr
    ) => {
        $(#[$doc])*
        #[derive(Debug)]
        pub(crate) enum $name {}

        impl DescribeQuery for $name {
            type Key = $key;
            type Item = $item;
            const BUCKET: BucketKey = $bucket;

            async fn page<E: Ec2>($ec2: &E, $keys: &[$key], $page: &PageRequest) -> Result<Page<$item>> {
                $call.await
            }

            fn key($of: &$item) -> Option<$key> {
                $key_of
            }
        }
    };
}

query! {
    VolumesById: VolumeId => Volume, BucketKey::of(Action::DescribeVolumes),
    |ec2, keys, page| ec2.describe_volumes(&VolumeQuery::FilterIds(keys.to_vec()), page),
    |volume| Some(volume.id.clone())
}

query! {
    VolumesByName: String => Volume, BucketKey::of(Action::DescribeVolumes),
    |ec2, keys, page| {
        let query = VolumeQuery::Tag { key: DriverName::VOLUME_NAME_TAG.to_owned(), values: keys.to_vec() };
        async move { ec2.describe_volumes(&query, page).await }
    },
    |volume| volume.csi_name().map(str::to_owned)
}

query! {
    Modifications: VolumeId => Modification, BucketKey::of(Action::DescribeVolumesModifications),
    |ec2, keys, page| ec2.describe_modifications(keys, page),
    |modification| Some(modification.volume.clone())
}

query! {
    /// The status of volumes, by id. EC2 has no filter for it, and rejects a page length together with ids.
    Statuses: VolumeId => VolumeStatus, BucketKey::unfiltered(Action::DescribeVolumeStatus),
    |ec2, keys, page| {
        let page = PageRequest { max_results: None, token: page.token.clone() };
        async move { ec2.describe_volume_status(keys, &page).await }
    },
    |status| Some(status.volume.clone())
}

query! {
    InstancesById: InstanceId => Instance, BucketKey::of(Action::DescribeInstances),
    |ec2, keys, page| ec2.describe_instances(keys, page),
    |instance| Some(instance.id.clone())
}

query! {
    SnapshotsById: SnapshotId => Snapshot, BucketKey::of(Action::DescribeSnapshots),
    |ec2, keys, page| ec2.describe_snapshots(&SnapshotQuery::FilterIds(keys.to_vec()), page),
    |snapshot| Some(snapshot.id.clone())
}

query! {
    SnapshotsByName: String => Snapshot, BucketKey::of(Action::DescribeSnapshots),
    |ec2, keys, page| {
        let query = SnapshotQuery::Tag { key: DriverName::SNAPSHOT_NAME_TAG.to_owned(), values: keys.to_vec() };
        async move { ec2.describe_snapshots(&query, page).await }
    },
    |snapshot| snapshot.tags.get(DriverName::SNAPSHOT_NAME_TAG).cloned()
}
