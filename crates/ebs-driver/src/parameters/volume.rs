use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_ec2::VolumeType;
use ebs_mounter::FormatOptions;

use super::{
    ClaimNames, Key, MutableParameters, PV_NAME_KEY, PVC_NAME_KEY, PVC_NAMESPACE_KEY, ParameterError, Sorted,
    TagTemplate, keys,
};
use crate::capability::Access;
use crate::context::FormatKey;

/// The parameters of a StorageClass. `None` means that the parameter is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeParameters {
    pub volume_type: Option<VolumeType>,
    pub iops: Option<NonZeroU32>,
    pub iops_per_gib: Option<NonZeroU32>,
    /// Whether to raise IOPS to the minimum of the volume type.
    pub raise_iops_to_min: bool,
    /// Whether a modification may raise IOPS in proportion to the size. The driver records the value in a tag.
    pub auto_iops_on_modify: Option<bool>,
    /// MiB/s.
    pub throughput: Option<NonZeroU32>,
    /// MiB/s at which EC2 initializes a volume from a snapshot.
    pub initialization_rate: Option<NonZeroU32>,
    pub encrypted: Option<bool>,
    pub kms_key_id: Option<String>,
    pub claim: ClaimNames,
    pub format: FormatOptions,
    /// Whether the node may format a blank volume that was created from a snapshot or another volume.
    pub format_blank_restore: bool,
    /// Whether to attach the volume only after EC2 has loaded all its data.
    pub block_until_initialized: bool,
    pub tags: Vec<TagTemplate>,
}

impl VolumeParameters {
    /// Parses the `parameters` of CreateVolume.
    pub fn parse(map: &HashMap<String, String>) -> Result<Self, ParameterError> {
        let mut sorted = Sorted::parse(map)?.without_deletions()?;
        let mut read = Self { tags: std::mem::take(&mut sorted.tags), ..Self::default() };
        sorted.set_in(&mut read, KEYS)?;
        Ok(read)
    }

    /// Returns every key, without tags.
    pub fn keys() -> impl Iterator<Item = &'static str> {
        KEYS.iter().map(|key| key.name)
    }
}

keys! { VolumeParameters;
    "type" => |p, e| p.volume_type = e.volume_type();
    "iops" => |p, e| p.iops = e.positive()?;
    "iopsPerGB" => |p, e| p.iops_per_gib = e.positive()?;
    "allowAutoIOPSPerGBIncrease" => |p, e| p.raise_iops_to_min = e.flag()?;
    "allowAutoIOPSIncreaseOnModify" => |p, e| p.auto_iops_on_modify = e.boolean()?;
    "throughput" => |p, e| p.throughput = e.positive()?;
    "volumeInitializationRate" => |p, e| p.initialization_rate = e.positive()?;
    "encrypted" => |p, e| p.encrypted = e.boolean()?;
    "kmsKeyId" => |p, e| p.kms_key_id = e.text();
    "blockSize" => |p, e| p.format.block_size = e.size_word()?;
    "inodeSize" => |p, e| p.format.inode_size = e.size_word()?;
    "bytesPerInode" => |p, e| p.format.bytes_per_inode = e.size_word()?;
    "numberOfInodes" => |p, e| p.format.number_of_inodes = e.size_word()?;
    "ext4BigAlloc" => |p, e| p.format.bigalloc = e.flag()?;
    "ext4ClusterSize" => |p, e| p.format.cluster_size = e.size_word()?;
    "ext4EncryptionSupport" => |p, e| p.format.encryption = e.flag()?;
    "formatBlankRestore" => |p, e| p.format_blank_restore = e.flag()?;
    "blockAttachUntilInitialized" => |p, e| p.block_until_initialized = e.flag()?;
    PVC_NAME_KEY => |p, e| p.claim.pvc_name = e.value.to_owned();
    PVC_NAMESPACE_KEY => |p, e| p.claim.pvc_namespace = e.value.to_owned();
    PV_NAME_KEY => |p, e| p.claim.pv_name = e.value.to_owned();
    "fsType" => |_, e| e.log_deprecated();
    "blockExpress" => |_, e| e.log_deprecated();
}

impl VolumeParameters {
    /// Leaves out the parameters of the StorageClass that have no meaning for this volume. Keeps `attributes`, because
    /// the claim itself requested them. `is_restored` is true for a volume from a snapshot.
    pub fn keep_applicable(
        &mut self,
        name: &str,
        attributes: &MutableParameters,
        is_restored: bool,
        accesses: &[Access],
    ) {
        let volume_type = self.volume_type.clone().unwrap_or(VolumeType::Gp3);
        let mut left_out = self.drop_performance(attributes, &volume_type);
        if self.initialization_rate.is_some() && !is_restored {
            self.initialization_rate = None;
            left_out.push("volumeInitializationRate (the volume is not created from a snapshot)".to_owned());
        }
        if accesses.iter().all(|access| *access == Access::Block) {
            let set = FormatKey::ALL.into_iter().filter(|key| key.is_set(&self.format));
            left_out.extend(set.map(|key| format!("{} (it is a raw block volume)", key.as_str())));
            self.format = FormatOptions::default();
        }
        if !left_out.is_empty() {
            tracing::warn!(
                volume = name,
                parameters = left_out.join(", "),
                "ignoring StorageClass parameters that do not apply to this volume"
            );
        }
    }

    /// Returns each parameter that it leaves out, with the reason.
    fn drop_performance(&mut self, attributes: &MutableParameters, volume_type: &VolumeType) -> Vec<String> {
        let mut left_out = Vec::new();
        let [has_iops, has_throughput] = [volume_type.has_iops_to_choose(), volume_type.has_throughput_to_choose()];
        let [by_number, by_gib] = [attributes.iops.flatten(), attributes.iops_per_gib()].map(|set| set.is_some());
        // A class that sets both the IOPS and the IOPS per GiB contradicts itself, whatever its volume type.
        let is_clear = self.iops.is_none() || self.iops_per_gib.is_none() || by_number || by_gib;
        let mut drop_iops =
            |set: &mut Option<NonZeroU32>, key: &str, overridden: bool, (by_other, other): (bool, &str)| {
                let why = if by_other {
                    format!("the VolumeAttributesClass has {other}")
                } else {
                    format!("the type is {volume_type}")
                };
                if set.is_some() && !overridden && is_clear && (by_other || !has_iops) {
                    *set = None;
                    left_out.push(format!("{key} ({why})"));
                }
            };
        drop_iops(&mut self.iops, "iops", by_number, (by_gib, "iopsPerGB"));
        drop_iops(&mut self.iops_per_gib, "iopsPerGB", by_gib, (by_number, "iops"));
        if self.throughput.is_some() && attributes.throughput.flatten().is_none() && !has_throughput {
            self.throughput = None;
            left_out.push(format!("throughput (the type is {volume_type})"));
        }
        left_out
    }
}
