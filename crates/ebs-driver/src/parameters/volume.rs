//! Parameters of CreateVolume.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_ec2::VolumeType;
use ebs_mounter::FormatOptions;

use super::volume_keys::{KEYS, Parameter};
use super::{ClaimNames, Described, Entry, ParameterError, Sorted, TagTemplate};
use crate::context::FormatKey;

/// The parameters of a StorageClass. `None` means that the parameter is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeParameters {
    pub volume_type: Option<VolumeType>,
    pub iops: Option<NonZeroU32>,
    /// IOPS for each GiB.
    pub iops_per_gib: Option<NonZeroU32>,
    /// Raise IOPS to the type's minimum.
    pub raise_iops_to_min: bool,
    /// Whether a modification may raise IOPS with the size, which a tag records.
    pub auto_iops_on_modify: Option<bool>,
    /// MiB/s.
    pub throughput: Option<NonZeroU32>,
    /// MiB/s at which EC2 initializes a volume from a snapshot.
    pub initialization_rate: Option<NonZeroU32>,
    pub encrypted: Option<bool>,
    pub kms_key_id: Option<String>,
    /// Kubernetes objects of the volume.
    pub claim: ClaimNames,
    /// Options for mkfs.
    pub format: FormatOptions,
    /// A blank volume from a snapshot or clone may be formatted.
    pub format_blank_restore: bool,
    /// Attach the volume only after its initialization.
    pub block_until_initialized: bool,
    pub tags: Vec<TagTemplate>,
}

impl VolumeParameters {
    /// Parses the `parameters` of CreateVolume.
    ///
    /// # Errors
    /// [`ParameterError`] for the first invalid key in alphabetical order.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let sorted = Sorted::parse(map)?.without_deletions()?;
        let mut read = Self { tags: sorted.tags, ..Self::default() };
        for (lower, entry) in &sorted.entries {
            let (parameter, _) = KEYS.iter().find(|(_, text)| text.has_key(lower)).ok_or_else(|| entry.unknown())?;
            read.set(*parameter, entry)?;
        }
        Ok(read)
    }

    /// Returns every key with its documentation, without tags.
    pub fn described() -> impl Iterator<Item = Described> {
        KEYS.into_iter().map(|(_, text)| text)
    }

    fn set(&mut self, parameter: Parameter, entry: &Entry<'_>) -> Result<(), ParameterError> {
        let text = || entry.text().unwrap_or_default();
        match parameter {
            Parameter::Type => self.volume_type = entry.volume_type(),
            Parameter::Iops => self.iops = entry.positive()?,
            Parameter::IopsPerGib => self.iops_per_gib = entry.positive()?,
            Parameter::RaiseIops => self.raise_iops_to_min = entry.boolean()?.unwrap_or(false),
            Parameter::AutoIopsOnModify => self.auto_iops_on_modify = entry.boolean()?,
            Parameter::Throughput => self.throughput = entry.positive()?,
            Parameter::InitializationRate => self.initialization_rate = entry.positive()?,
            Parameter::Encrypted => self.encrypted = entry.boolean()?,
            Parameter::KmsKeyId => self.kms_key_id = entry.text(),
            Parameter::PvcName => self.claim.pvc_name = text(),
            Parameter::PvcNamespace => self.claim.pvc_namespace = text(),
            Parameter::PvName => self.claim.pv_name = text(),
            Parameter::Ignored => tracing::info!(key = entry.key, "ignoring deprecated parameter"),
            Parameter::Format(key) => self.set_format(key, entry)?,
            Parameter::FormatBlankRestore => self.format_blank_restore = entry.boolean()?.unwrap_or(false),
            Parameter::BlockUntilInitialized => self.block_until_initialized = entry.boolean()?.unwrap_or(false),
        }
        Ok(())
    }

    fn set_format(&mut self, key: FormatKey, entry: &Entry<'_>) -> Result<(), ParameterError> {
        let options = &mut self.format;
        match key {
            FormatKey::BlockSize => options.block_size = entry.size_word()?,
            FormatKey::InodeSize => options.inode_size = entry.size_word()?,
            FormatKey::BytesPerInode => options.bytes_per_inode = entry.size_word()?,
            FormatKey::NumberOfInodes => options.number_of_inodes = entry.size_word()?,
            FormatKey::Bigalloc => options.bigalloc = entry.boolean()?.unwrap_or(false),
            FormatKey::ClusterSize => options.cluster_size = entry.size_word()?,
            FormatKey::Encryption => options.encryption = entry.boolean()?.unwrap_or(false),
        }
        Ok(())
    }
}
