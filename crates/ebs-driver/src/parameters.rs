//! Parameters of StorageClasses, VolumeAttributesClasses and VolumeSnapshotClasses as typed values. A parser refuses a
//! map with an invalid entry or two spellings of one key. Keys are case-insensitive, tag prefixes are not.

mod applicable;
mod error;
mod formatting;
mod key;
mod lock;
mod mutable;
mod snapshot;
mod value;
mod volume;

use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;

pub use error::ParameterError;
pub use formatting::{block_size, check_format_options};
pub use mutable::MutableParameters;
pub use snapshot::SnapshotParameters;
pub use volume::VolumeParameters;

use ebs_ec2::IopsRequest;

use crate::go_template::Data;

const TAG_PREFIX: &str = "tagSpecification";
const TAG_DELETION_PREFIX: &str = "tagDeletion";

struct Entry<'a> {
    key: &'a str,
    value: &'a str,
}

/// A tag of a class, with a literal key and a template as its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagTemplate {
    pub(crate) key: String,
    pub(crate) template: String,
}

/// A parameter map sorted by lower-case key, with the tags kept separately.
struct Sorted<'a> {
    entries: BTreeMap<String, Entry<'a>>,
    tags: Vec<TagTemplate>,
    deletions: Vec<String>,
}

impl<'a> Sorted<'a> {
    fn parse(map: &'a HashMap<String, String>) -> Result<Self, ParameterError> {
        let by_spelling: BTreeMap<&str, &str> = map.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let mut sorted = Self { entries: BTreeMap::new(), tags: Vec::new(), deletions: Vec::new() };
        for (key, value) in by_spelling {
            if key.starts_with(TAG_PREFIX) {
                sorted.tags.push(Entry { key, value }.tag()?);
            } else if key.starts_with(TAG_DELETION_PREFIX) {
                sorted.deletions.push(value.to_owned());
            } else if let Some(other) = sorted.entries.insert(key.to_lowercase(), Entry { key, value }) {
                return Err(ParameterError::Twice { first: other.key.to_owned(), second: key.to_owned() });
            }
        }
        Ok(sorted)
    }

    /// Refuses `tagDeletion*` in a class that cannot delete tags.
    fn without_deletions(self) -> Result<Self, ParameterError> {
        match self.deletions.first() {
            None => Ok(self),
            Some(_) => Err(ParameterError::Unknown { key: TAG_DELETION_PREFIX.to_owned() }),
        }
    }
}

/// Names of the volume's Kubernetes objects, which the provisioner adds. They are empty when unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ClaimNames {
    pub pvc_name: String,
    pub pvc_namespace: String,
    pub pv_name: String,
}

impl ClaimNames {
    /// Returns the variables for tag templates. Unknown names are empty.
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

/// Combines the two parameters that set IOPS.
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
