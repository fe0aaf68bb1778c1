//! Parameters of CreateSnapshot (`controller.md` 14, step 4).

use std::collections::HashMap;

use ebs_cloud::SnapshotFeatures;
use go_template::Data;

use super::{ParameterError, Sorted};
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
    /// [`ParameterError`] for the first key, in alphabetical order, that is not understood.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::of(map)?.without_deletions()?;
        let mut read = Self { tags: sorted.tags, ..Self::default() };
        for (lower, entry) in &sorted.entries {
            let text = || entry.value.to_owned();
            match lower.as_str() {
                "csi.storage.k8s.io/volumesnapshot/name" => read.name = text(),
                "csi.storage.k8s.io/volumesnapshot/namespace" => read.namespace = text(),
                "csi.storage.k8s.io/volumesnapshotcontent/name" => read.content_name = text(),
                "fastsnapshotrestoreavailabilityzones" => read.features.fast_restore_zones = entry.zones()?,
                "outpostarn" => read.outpost_arn = Some(entry.arn()?),
                // An empty mode asks for no lock.
                "lockmode" => read.features.lock.mode = entry.text(),
                "lockduration" => read.features.lock.duration_days = Some(entry.at_least_one()?),
                "lockexpirationdate" => read.features.lock.expiration = Some(entry.time()?),
                "lockcooloffperiod" => read.features.lock.cool_off_hours = Some(entry.at_least_one()?),
                _ => return Err(entry.unknown()),
            }
        }
        Ok(read)
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
