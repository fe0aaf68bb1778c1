use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_ec2::VolumeType;
use ebs_mounter::FormatOptions;

use super::key::{Key, keys};
use super::{ClaimNames, PV_NAME_KEY, PVC_NAME_KEY, PVC_NAMESPACE_KEY, ParameterError, Sorted, TagTemplate};

/// The parameters of a StorageClass. `None` means that the parameter is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeParameters {
    pub volume_type: Option<VolumeType>,
    pub iops: Option<NonZeroU32>,
    pub iops_per_gib: Option<NonZeroU32>,
    /// Whether to raise IOPS to the minimum of the volume type.
    pub raise_iops_to_min: bool,
    /// Whether a modification may raise IOPS with the size. The driver records the value in a tag.
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
