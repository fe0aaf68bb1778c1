//! Parameters of a VolumeAttributesClass, at creation and at modification.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_cloud::ModifySpec;
use ebs_types::VolumeType;

use super::mutable_keys::{KEYS, Parameter};
use super::{ClaimNames, Described, Entry, ParameterError, Sorted, VolumeParameters, iops_request};
use crate::tags::TagTemplate;

/// What a VolumeAttributesClass says. The outer `Option` is "the key is there": a key without a value unsets what the
/// StorageClass said, and changes nothing of a volume that is there.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MutableParameters {
    volume_type: Option<Option<VolumeType>>,
    iops: Option<Option<NonZeroU32>>,
    iops_per_gib: Option<Option<NonZeroU32>>,
    throughput: Option<Option<NonZeroU32>>,
    auto_iops_on_modify: Option<Option<bool>>,
    /// Kubernetes objects behind the volume, for templates; known at modification only: at creation the provisioner puts
    /// them among the parameters.
    pub claim: ClaimNames,
    pub tags: Vec<TagTemplate>,
    /// Keys of tags that are not to be there.
    pub deletions: Vec<String>,
}

impl MutableParameters {
    /// Reads the `mutable_parameters` of CreateVolume or ControllerModifyVolume, or the parameters of the volume
    /// modifier's service: they know the same keys.
    ///
    /// # Errors
    /// [`ParameterError`] for the first key, in alphabetical order, that is not understood.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::of(map)?;
        let mut read = Self { tags: sorted.tags, deletions: sorted.deletions, ..Self::default() };
        let mut deprecated_type = None;
        for (lower, entry) in &sorted.entries {
            let (parameter, _) = KEYS.iter().find(|(_, text)| text.is(lower)).ok_or_else(|| entry.unknown())?;
            match parameter {
                Parameter::DeprecatedType => deprecated_type = Some(entry.volume_type()),
                parameter => read.set(*parameter, entry)?,
            }
        }
        read.volume_type = read.volume_type.or(deprecated_type);
        Ok(read)
    }

    /// Every key with what the documentation says of it, tags apart.
    pub fn described() -> impl Iterator<Item = Described> {
        KEYS.into_iter().map(|(_, text)| text)
    }

    fn set(&mut self, parameter: Parameter, entry: &Entry<'_>) -> Result<(), ParameterError> {
        let text = || entry.text().unwrap_or_default();
        match parameter {
            Parameter::Type | Parameter::DeprecatedType => self.volume_type = Some(entry.volume_type()),
            Parameter::Iops => self.iops = Some(entry.positive()?),
            Parameter::IopsPerGib => self.iops_per_gib = Some(entry.positive()?),
            Parameter::AutoIopsOnModify => self.auto_iops_on_modify = Some(entry.boolean()?),
            Parameter::Throughput => self.throughput = Some(entry.positive()?),
            Parameter::PvcName => self.claim.pvc_name = text(),
            Parameter::PvcNamespace => self.claim.pvc_namespace = text(),
            Parameter::PvName => self.claim.pv_name = text(),
        }
        Ok(())
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

    /// What a volume that is there is to become, without tags.
    ///
    /// # Errors
    /// [`ParameterError::TwoIops`].
    pub fn properties(&self) -> Result<ModifySpec, ParameterError> {
        Ok(ModifySpec {
            volume_type: self.volume_type.clone().flatten(),
            iops: iops_request(self.iops.flatten(), self.iops_per_gib())?,
            auto_iops: self.auto_iops_on_modify(),
            throughput: self.throughput.flatten(),
            ..ModifySpec::default()
        })
    }

    /// True when it asks for a number of IOPS.
    pub(super) fn sets_iops(&self) -> bool {
        self.iops.flatten().is_some()
    }

    /// True when it asks for IOPS by the GiB.
    pub(super) fn sets_iops_per_gib(&self) -> bool {
        self.iops_per_gib.flatten().is_some()
    }

    /// True when it asks for a throughput.
    pub(super) fn sets_throughput(&self) -> bool {
        self.throughput.flatten().is_some()
    }

    /// IOPS for each GiB, to be recorded in a tag.
    pub fn iops_per_gib(&self) -> Option<NonZeroU32> {
        self.iops_per_gib.flatten()
    }

    /// To be recorded in a tag: whether a modification may raise IOPS with the size.
    pub fn auto_iops_on_modify(&self) -> Option<bool> {
        self.auto_iops_on_modify.flatten()
    }
}
