//! Parameters of CreateSnapshot (`controller.md` 14, step 4).

use std::collections::HashMap;

use super::{ParameterError, Sorted};
use crate::tag_template::TemplateValues;
use crate::tags::TagTemplate;

/// What a VolumeSnapshotClass says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotParameters {
    name: String,
    namespace: String,
    content_name: String,
    /// Tags, by parameter key.
    pub tags: Vec<TagTemplate>,
}

impl SnapshotParameters {
    /// Reads the `parameters` of CreateSnapshot.
    ///
    /// # Errors
    /// [`ParameterError`] for the first key, in alphabetical order, that is not understood; fast restore, locks and
    /// Outposts are refused as not supported yet.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::of(map)?.without_deletions()?;
        let mut read = Self { tags: sorted.tags, ..Self::default() };
        for (lower, entry) in &sorted.entries {
            let text = || entry.value.to_owned();
            match lower.as_str() {
                "csi.storage.k8s.io/volumesnapshot/name" => read.name = text(),
                "csi.storage.k8s.io/volumesnapshot/namespace" => read.namespace = text(),
                "csi.storage.k8s.io/volumesnapshotcontent/name" => read.content_name = text(),
                "fastsnapshotrestoreavailabilityzones" => return Err(entry.not_yet("fast snapshot restore")),
                "outpostarn" => return Err(entry.not_yet("snapshots on an Outpost")),
                // An empty mode asks for no lock.
                "lockmode" if entry.value.is_empty() => {}
                "lockmode" | "lockduration" | "lockexpirationdate" | "lockcooloffperiod" => {
                    return Err(entry.not_yet("snapshot locks"));
                }
                _ => return Err(entry.unknown()),
            }
        }
        Ok(read)
    }

    /// The values that tag templates see.
    pub fn template_values(&self) -> TemplateValues {
        TemplateValues::snapshot(&self.name, &self.namespace, &self.content_name)
    }
}
