//! Parameters of CreateSnapshot.

use std::collections::HashMap;

use ebs_cloud::SnapshotFeatures;
use go_template::Data;

use super::lock::LockParameters;
use super::snapshot_keys::{KEYS, Parameter};
use super::{Described, ParameterError, Sorted};
use crate::tags::TagTemplate;

/// What a VolumeSnapshotClass says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotParameters {
    name: String,
    namespace: String,
    content_name: String,
    /// Fast restores and lock.
    pub features: SnapshotFeatures,
    /// Outpost that is to hold it, by ARN.
    pub outpost_arn: Option<String>,
    pub tags: Vec<TagTemplate>,
}

impl SnapshotParameters {
    /// Reads the `parameters` of CreateSnapshot.
    ///
    /// # Errors
    /// [`ParameterError`] for the first key, in alphabetical order, that is not understood, then for a lock that cannot be.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::of(map)?.without_deletions()?;
        let mut read = Self { tags: sorted.tags, ..Self::default() };
        let mut lock = LockParameters::default();
        for (lower, entry) in &sorted.entries {
            let (parameter, _) = KEYS.iter().find(|(_, text)| text.is(lower)).ok_or_else(|| entry.unknown())?;
            let text = || entry.value.to_owned();
            match parameter {
                Parameter::Name => read.name = text(),
                Parameter::Namespace => read.namespace = text(),
                Parameter::ContentName => read.content_name = text(),
                Parameter::FastRestoreZones => read.features.fast_restore_zones = entry.zones()?,
                Parameter::OutpostArn => read.outpost_arn = Some(entry.arn()?),
                Parameter::LockMode => lock.set_mode(entry)?,
                Parameter::LockDuration => lock.set_days(entry)?,
                Parameter::LockExpirationDate => lock.set_expiration(entry)?,
                Parameter::LockCoolOffPeriod => lock.set_cool_off(entry)?,
            }
        }
        read.features.lock = lock.lock()?;
        Ok(read)
    }

    /// Every key with what the documentation says of it, tags apart.
    pub fn described() -> impl Iterator<Item = Described> {
        KEYS.into_iter().map(|(_, text)| text)
    }

    /// What templates of tags see; names that are not known are empty.
    pub fn template_data(&self) -> Data {
        Data::new([
            ("VolumeSnapshotName", self.name.clone()),
            ("VolumeSnapshotNamespace", self.namespace.clone()),
            ("VolumeSnapshotContentName", self.content_name.clone()),
        ])
    }
}
