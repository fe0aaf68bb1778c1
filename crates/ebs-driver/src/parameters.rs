//! Parameters of StorageClasses, VolumeAttributesClasses and VolumeSnapshotClasses as typed values.
//!
//! A map of strings is read once, completely, and refused at the first thing that is not understood. Keys are
//! case-insensitive, except the prefix `tagSpecification`; two spellings of one key are refused.

mod applicable;
mod described;
mod error;
mod formatting;
mod lock;
mod mutable;
mod mutable_keys;
mod snapshot;
mod snapshot_keys;
mod value;
mod volume;
mod volume_keys;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

pub use described::Described;
pub use error::ParameterError;
pub use formatting::{block_size, check_format_options};
pub use mutable::MutableParameters;
pub use snapshot::SnapshotParameters;
pub use volume::VolumeParameters;

use ebs_types::IopsRequest;
use go_template::Data;

use crate::tags::TagTemplate;

/// Prefix of the keys that carry a tag; case-sensitive.
const TAG_PREFIX: &str = "tagSpecification";
/// The keys with that prefix, for the documentation.
pub const TAG_SPECIFICATION: Described = Described::new(
    "tagSpecification*",
    "`key=value`; the prefix in this spelling, followed by anything",
    "a tag; the value is a template, see [tagging](tagging.md)",
)
.not("[reserved keys](tagging.md#reserved-keys)");
/// Prefix of the keys that name a tag to delete; case-sensitive.
const TAG_DELETION_PREFIX: &str = "tagDeletion";
/// The keys with that prefix, for the documentation.
pub const TAG_DELETION: Described = Described::new(
    "tagDeletion*",
    "the key of a tag; the prefix in this spelling, followed by anything",
    "delete a tag, unless another entry sets it",
)
.not("[reserved keys](tagging.md#reserved-keys)");

/// One entry, as the user spelt it.
struct Entry<'a> {
    key: &'a str,
    value: &'a str,
}

/// A parameter map sorted by lower-cased key, tags apart.
struct Sorted<'a> {
    entries: BTreeMap<String, Entry<'a>>,
    tags: Vec<TagTemplate>,
    deletions: Vec<String>,
}

impl<'a> Sorted<'a> {
    fn of(map: &'a HashMap<String, String>) -> Result<Self, ParameterError> {
        let by_spelling: BTreeMap<&str, &str> = map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut sorted = Self { entries: BTreeMap::new(), tags: Vec::new(), deletions: Vec::new() };
        for (key, value) in by_spelling {
            if key.starts_with(TAG_PREFIX) {
                sorted.tags.push(TagTemplate::parse(key, value)?);
            } else if key.starts_with(TAG_DELETION_PREFIX) {
                sorted.deletions.push(value.to_owned());
            } else if let Some(other) = sorted.entries.insert(key.to_lowercase(), Entry { key, value }) {
                return Err(ParameterError::Twice { first: other.key.to_owned(), second: key.to_owned() });
            }
        }
        Ok(sorted)
    }

    /// Refuses `tagDeletion*` where it has no meaning.
    fn without_deletions(self) -> Result<Self, ParameterError> {
        match self.deletions.first() {
            None => Ok(self),
            Some(_) => Err(ParameterError::Unknown { key: TAG_DELETION_PREFIX.to_owned() }),
        }
    }
}

/// Names of the Kubernetes objects behind a volume, as the provisioner adds them; empty when unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimNames {
    pub pvc_name: String,
    pub pvc_namespace: String,
    /// Name of the volume object.
    pub pv_name: String,
}

impl ClaimNames {
    /// What templates of tags see; names that are not known are empty.
    pub fn template_data(&self) -> Data {
        Data::new([
            ("PVCName", self.pvc_name.clone()),
            ("PVCNamespace", self.pvc_namespace.clone()),
            ("PVName", self.pv_name.clone()),
        ])
    }
}

const PVC_NAME_KEY: &str = "csi.storage.k8s.io/pvc/name";
const PVC_NAMESPACE_KEY: &str = "csi.storage.k8s.io/pvc/namespace";
const PV_NAME_KEY: &str = "csi.storage.k8s.io/pv/name";

/// The IOPS that both ways to say them come to.
///
/// # Errors
/// [`ParameterError::TwoIops`].
pub fn iops_request(iops: Option<NonZeroU32>, per_gib: Option<NonZeroU32>) -> Result<IopsRequest, ParameterError> {
    match (iops, per_gib) {
        (Some(iops), Some(per_gib)) => Err(ParameterError::TwoIops { iops: iops.get(), per_gib: per_gib.get() }),
        (Some(iops), None) => Ok(IopsRequest::Explicit(iops)),
        (None, Some(per_gib)) => Ok(IopsRequest::PerGib(per_gib)),
        (None, None) => Ok(IopsRequest::Default),
    }
}

#[cfg(test)]
mod tests;
