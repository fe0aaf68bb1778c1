//! Parameters of a VolumeAttributesClass at creation (`controller.md` 6.5, C13).

use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_types::VolumeType;

use super::{PV_NAME_KEY, PVC_NAME_KEY, PVC_NAMESPACE_KEY, ParameterError, Sorted, VolumeParameters};
use crate::tags::TagTemplate;

/// What a VolumeAttributesClass says. The outer `Option` is "the key is there": a key without a value unsets what the
/// StorageClass said.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MutableParameters {
    volume_type: Option<Option<VolumeType>>,
    iops: Option<Option<NonZeroU32>>,
    iops_per_gib: Option<Option<NonZeroU32>>,
    throughput: Option<Option<NonZeroU32>>,
    auto_iops_on_modify: Option<Option<bool>>,
    pub tags: Vec<TagTemplate>,
    /// Keys of tags that are not to be there.
    pub deletions: Vec<String>,
}

impl MutableParameters {
    /// Reads the `mutable_parameters` of CreateVolume. The same keys as of a later modification are known.
    ///
    /// # Errors
    /// [`ParameterError`] for the first key, in alphabetical order, that is not understood.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::of(map)?;
        let mut read = Self { tags: sorted.tags, deletions: sorted.deletions, ..Self::default() };
        let mut deprecated_type = None;
        for (lower, entry) in &sorted.entries {
            match lower.as_str() {
                "type" => read.volume_type = Some(entry.volume_type()),
                "volumetype" => deprecated_type = Some(entry.volume_type()),
                "iops" => read.iops = Some(entry.positive()?),
                "iopspergb" => read.iops_per_gib = Some(entry.positive()?),
                "throughput" => read.throughput = Some(entry.positive()?),
                "allowautoiopsincreaseonmodify" => read.auto_iops_on_modify = Some(entry.boolean()?),
                // For templates; at creation the provisioner puts them among the parameters.
                PVC_NAME_KEY | PVC_NAMESPACE_KEY | PV_NAME_KEY => {}
                _ => return Err(entry.unknown()),
            }
        }
        read.volume_type = read.volume_type.or(deprecated_type);
        Ok(read)
    }

    /// Overrides, key by key, what the StorageClass said; its tags stay apart.
    pub fn override_in(&self, parameters: &mut VolumeParameters) {
        if let Some(volume_type) = &self.volume_type {
            parameters.volume_type.clone_from(volume_type);
        }
        if let Some(iops) = self.iops {
            parameters.iops = iops;
        }
        if let Some(ratio) = self.iops_per_gib {
            parameters.iops_per_gib = ratio;
        }
        if let Some(throughput) = self.throughput {
            parameters.throughput = throughput;
        }
        if let Some(auto) = self.auto_iops_on_modify {
            parameters.auto_iops_on_modify = auto;
        }
    }
}
