use std::collections::HashMap;

use ebs_cloud::SnapshotFeatures;

use super::lock::{COOL_OFF_HOURS, DAYS, LockParameters};
use super::{Key, ParameterError, Sorted, TagTemplate, keys};
use crate::go_template::Data;

/// The parameters of a VolumeSnapshotClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotParameters {
    name: String,
    namespace: String,
    content_name: String,
    pub features: SnapshotFeatures,
    pub outpost_arn: Option<String>,
    pub tags: Vec<TagTemplate>,
}

impl SnapshotParameters {
    /// Parses the `parameters` of CreateSnapshot.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let mut sorted = Sorted::parse(map)?.without_deletions()?;
        let mut read = (Self { tags: std::mem::take(&mut sorted.tags), ..Self::default() }, LockParameters::default());
        sorted.set_in(&mut read, KEYS)?;
        let (mut parameters, lock) = read;
        parameters.features.lock = lock.lock()?;
        Ok(parameters)
    }

    /// Returns every key, without tags.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.iter().map(|key| key.name)
    }

    /// Returns the variables for tag templates. Unknown names are empty.
    pub fn template_data(&self) -> Data {
        Data::new([
            ("VolumeSnapshotName", self.name.clone()),
            ("VolumeSnapshotNamespace", self.namespace.clone()),
            ("VolumeSnapshotContentName", self.content_name.clone()),
        ])
    }
}

keys! { (SnapshotParameters, LockParameters);
    "fastSnapshotRestoreAvailabilityZones" => |(p, _), e| p.features.fast_restore_zones = e.zones()?;
    "outpostArn" => |(p, _), e| p.outpost_arn = Some(e.arn()?);
    "lockMode" => |(_, lock), e| lock.set_mode(e)?;
    "lockDuration" => |(_, lock), e| lock.days = Some(e.within(&DAYS, "a whole number of days from 1 to 36500")?);
    "lockExpirationDate" => |(_, lock), e| lock.expiration = Some(e.time()?);
    "lockCoolOffPeriod" => |(_, lock), e| {
        lock.cool_off_hours = Some(e.within(&COOL_OFF_HOURS, "a whole number of hours from 1 to 72")?);
    };
    "csi.storage.k8s.io/volumesnapshot/name" => |(p, _), e| p.name = e.value.to_owned();
    "csi.storage.k8s.io/volumesnapshot/namespace" => |(p, _), e| p.namespace = e.value.to_owned();
    "csi.storage.k8s.io/volumesnapshotcontent/name" => |(p, _), e| p.content_name = e.value.to_owned();
}
