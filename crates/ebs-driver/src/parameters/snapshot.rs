//! Parameters of CreateSnapshot (`controller.md` 14, step 4).

use std::collections::HashMap;
use std::time::SystemTime;

use ebs_cloud::LockSnapshot;
use ebs_types::{SnapshotId, ZoneName};

use super::{ParameterError, Sorted};
use crate::tag_template::TemplateValues;
use crate::tags::TagTemplate;

/// What a VolumeSnapshotClass says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SnapshotParameters {
    name: String,
    namespace: String,
    content_name: String,
    /// Zones in which volumes are to be restored fast.
    pub fast_restore_zones: Vec<ZoneName>,
    /// Outpost that is to hold it, by ARN.
    pub outpost_arn: Option<String>,
    /// Lock.
    pub lock: Lock,
    /// Tags, by parameter key.
    pub tags: Vec<TagTemplate>,
}

/// A lock, as given: EC2 judges the combination.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lock {
    /// `governance` or `compliance`.
    pub mode: Option<String>,
    /// Days.
    pub duration_days: Option<u32>,
    /// Until then.
    pub expiration: Option<SystemTime>,
    /// Hours in which a lock in compliance mode can be changed.
    pub cool_off_hours: Option<u32>,
}

impl Lock {
    /// The lock of that snapshot; `None` when none was asked for.
    pub fn of(&self, snapshot: &SnapshotId) -> Option<LockSnapshot> {
        if *self == Self::default() {
            return None;
        }
        Some(LockSnapshot {
            snapshot: snapshot.clone(),
            mode: self.mode.clone(),
            cool_off_hours: self.cool_off_hours,
            expiration: self.expiration,
            duration_days: self.duration_days,
        })
    }
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
                "fastsnapshotrestoreavailabilityzones" => read.fast_restore_zones = entry.zones()?,
                "outpostarn" => read.outpost_arn = Some(entry.arn()?),
                // An empty mode asks for no lock.
                "lockmode" => read.lock.mode = entry.text(),
                "lockduration" => read.lock.duration_days = entry.positive()?,
                "lockexpirationdate" => read.lock.expiration = Some(entry.time()?),
                "lockcooloffperiod" => read.lock.cool_off_hours = entry.positive()?,
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
