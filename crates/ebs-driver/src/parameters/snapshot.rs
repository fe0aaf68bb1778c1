//! Parameters of CreateSnapshot.

use std::collections::HashMap;

use ebs_cloud::SnapshotFeatures;

use super::key::{Described, Key, keys};
use super::lock::LockParameters;
use super::{ParameterError, Sorted, TagTemplate};
use crate::go_template::Data;

/// The parameters of a VolumeSnapshotClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotParameters {
    name: String,
    namespace: String,
    content_name: String,
    /// Fast restores and lock.
    pub features: SnapshotFeatures,
    pub outpost_arn: Option<String>,
    pub tags: Vec<TagTemplate>,
}

impl SnapshotParameters {
    /// Parses the `parameters` of CreateSnapshot.
    ///
    /// # Errors
    /// [`ParameterError`] for the first invalid key in alphabetical order, then for an invalid lock.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let mut sorted = Sorted::parse(map)?.without_deletions()?;
        let mut read = (Self { tags: std::mem::take(&mut sorted.tags), ..Self::default() }, LockParameters::default());
        sorted.set_in(&mut read, KEYS)?;
        let (mut parameters, lock) = read;
        parameters.features.lock = lock.lock()?;
        Ok(parameters)
    }

    /// Returns every key with its documentation, without tags.
    pub fn described() -> impl Iterator<Item = Described> {
        KEYS.iter().map(|key| key.text)
    }

    /// Returns the variables for templates of tags. Unknown names are empty.
    pub fn template_data(&self) -> Data {
        Data::new([
            ("VolumeSnapshotName", self.name.clone()),
            ("VolumeSnapshotNamespace", self.namespace.clone()),
            ("VolumeSnapshotContentName", self.content_name.clone()),
        ])
    }
}

const FROM_SNAPSHOTTER: &str = "text; added by the snapshotter (`--extra-create-metadata`)";

keys! { (SnapshotParameters, LockParameters);
    "fastSnapshotRestoreAvailabilityZones", "zones such as `us-west-2a, us-west-2b`",
        "enable fast snapshot restore there, which AWS bills by the hour for each zone"
        => |(p, _), e| p.features.fast_restore_zones = e.zones()?;
    "outpostArn", "ARN of an Outpost", "keep the snapshot on that Outpost, where its volume must be",
        default "the region" => |(p, _), e| p.outpost_arn = Some(e.arn()?);
    "lockMode", "`governance` or `compliance`",
        "lock the snapshot; needs one of `lockDuration` and `lockExpirationDate`",
        default "no lock" => |(_, lock), e| lock.set_mode(e)?;
    "lockDuration", "days, 1 to 36500", "how long the lock lasts, from the completion of the snapshot",
        not "`lockExpirationDate`; no `lockMode`" => |(_, lock), e| lock.set_days(e)?;
    "lockExpirationDate", "a time such as `2040-12-31T23:59:59Z`, in the future", "when the lock ends",
        not "`lockDuration`; no `lockMode`" => |(_, lock), e| lock.set_expiration(e)?;
    "lockCoolOffPeriod", "hours, 1 to 72",
        "how long a compliance lock can still be lifted or changed; without it, never",
        not "`lockMode: governance`; no `lockMode`" => |(_, lock), e| lock.set_cool_off(e)?;
    "csi.storage.k8s.io/volumesnapshot/name", FROM_SNAPSHOTTER, "`.VolumeSnapshotName` in templates"
        => |(p, _), e| p.name = e.value.to_owned();
    "csi.storage.k8s.io/volumesnapshot/namespace", FROM_SNAPSHOTTER, "`.VolumeSnapshotNamespace` in templates"
        => |(p, _), e| p.namespace = e.value.to_owned();
    "csi.storage.k8s.io/volumesnapshotcontent/name", FROM_SNAPSHOTTER, "`.VolumeSnapshotContentName` in templates"
        => |(p, _), e| p.content_name = e.value.to_owned();
}
