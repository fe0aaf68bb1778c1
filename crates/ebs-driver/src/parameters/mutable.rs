//! Parameters of a VolumeAttributesClass, at creation and at modification.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_cloud::ModifySpec;
use ebs_ec2::VolumeType;

use super::mutable_keys::{KEYS, Parameter};
use super::{ClaimNames, Described, Entry, ParameterError, Sorted, TagTemplate, VolumeParameters, iops_request};

/// The parameters of a VolumeAttributesClass. The outer `Option` is `Some` when the key is present. A key without a
/// value unsets the value of the StorageClass, and does not change an existing volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MutableParameters {
    volume_type: Option<Option<VolumeType>>,
    iops: Option<Option<NonZeroU32>>,
    iops_per_gib: Option<Option<NonZeroU32>>,
    throughput: Option<Option<NonZeroU32>>,
    auto_iops_on_modify: Option<Option<bool>>,
    /// Kubernetes objects of the volume, for templates. Only the modification has them here, because at creation the
    /// provisioner adds them to the parameters.
    pub claim: ClaimNames,
    pub tags: Vec<TagTemplate>,
    /// Keys of tags to delete.
    pub deletions: Vec<String>,
}

impl MutableParameters {
    /// Parses the `mutable_parameters` of CreateVolume or ControllerModifyVolume, or the parameters of the volume
    /// modifier's service, which have the same keys.
    ///
    /// # Errors
    /// [`ParameterError`] for the first invalid key in alphabetical order.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::parse(map)?;
        let mut read = Self { tags: sorted.tags, deletions: sorted.deletions, ..Self::default() };
        let mut deprecated_type = None;
        for (lower, entry) in &sorted.entries {
            let (parameter, _) = KEYS.iter().find(|(_, text)| text.has_key(lower)).ok_or_else(|| entry.unknown())?;
            match parameter {
                Parameter::DeprecatedType => deprecated_type = Some(entry.volume_type()),
                parameter => read.set(*parameter, entry)?,
            }
        }
        read.volume_type = read.volume_type.or(deprecated_type);
        Ok(read)
    }

    /// Returns every key with its documentation, without tags.
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

    /// Overrides the parameters of the StorageClass, key by key. Tags are not merged here.
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

    /// Returns the modification of an existing volume, without tags.
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

    /// Returns true when the class sets a number of IOPS.
    pub(super) fn sets_iops(&self) -> bool {
        self.iops.flatten().is_some()
    }

    /// Returns true when the class sets IOPS for each GiB.
    pub(super) fn sets_iops_per_gib(&self) -> bool {
        self.iops_per_gib.flatten().is_some()
    }

    /// Returns true when the class sets a throughput.
    pub(super) fn sets_throughput(&self) -> bool {
        self.throughput.flatten().is_some()
    }

    /// Returns the IOPS for each GiB, which a tag records.
    pub fn iops_per_gib(&self) -> Option<NonZeroU32> {
        self.iops_per_gib.flatten()
    }

    /// Returns whether a modification may raise IOPS with the size, which a tag records.
    pub fn auto_iops_on_modify(&self) -> Option<bool> {
        self.auto_iops_on_modify.flatten()
    }
}
