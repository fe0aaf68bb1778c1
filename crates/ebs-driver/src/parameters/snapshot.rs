//! Parameters of CreateSnapshot.

use std::collections::HashMap;

use ebs_cloud::SnapshotFeatures;

use super::lock::LockParameters;
use super::snapshot_keys::{KEYS, Parameter};
use super::{Described, ParameterError, Sorted, TagTemplate};
use crate::go_template::Data;

/// The parameters of a VolumeSnapshotClass.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotParameters {
    name: String,
    namespace: String,
    content_name: String,
    /// Fast restores and lock.
    pub features: SnapshotFeatures,
    /// The ARN of the Outpost for the snapshot.
    pub outpost_arn: Option<String>,
    pub tags: Vec<TagTemplate>,
}

impl SnapshotParameters {
    /// Parses the `parameters` of CreateSnapshot.
    ///
    /// # Errors
    /// [`ParameterError`] for the first invalid key in alphabetical order, then for an invalid lock.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::parse(map)?.without_deletions()?;
        let mut read = Self { tags: sorted.tags, ..Self::default() };
        let mut lock = LockParameters::default();
        for (lower, entry) in &sorted.entries {
            let (parameter, _) = KEYS.iter().find(|(_, text)| text.has_key(lower)).ok_or_else(|| entry.unknown())?;
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

    /// Returns every key with its documentation, without tags.
    pub fn described() -> impl Iterator<Item = Described> {
        KEYS.into_iter().map(|(_, text)| text)
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
