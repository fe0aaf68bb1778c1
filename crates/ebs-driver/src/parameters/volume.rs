//! Parameters of CreateVolume.

use std::collections::HashMap;
use std::num::NonZeroU32;

use ebs_ec2::VolumeType;
use ebs_mounter::FormatOptions;

use super::key::{Described, Key, keys};
use super::{ClaimNames, PV_NAME_KEY, PVC_NAME_KEY, PVC_NAMESPACE_KEY, ParameterError, Sorted, TagTemplate};

/// The parameters of a StorageClass. `None` means that the parameter is not set.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeParameters {
    pub volume_type: Option<VolumeType>,
    pub iops: Option<NonZeroU32>,
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
        let mut sorted = Sorted::parse(map)?.without_deletions()?;
        let mut read = Self { tags: std::mem::take(&mut sorted.tags), ..Self::default() };
        sorted.set_in(&mut read, KEYS)?;
        Ok(read)
    }

    /// Returns every key with its documentation, without tags.
    pub fn described() -> impl Iterator<Item = Described> {
        KEYS.iter().map(|key| key.text)
    }
}

const FLAG: &str = "`true` or `false`";
const SIZE: &str = "letters and digits";
const COUNT: &str = "whole number; 0 or less: unset";
const FROM_PROVISIONER: &str = "text; added by the provisioner (`--extra-create-metadata`)";

keys! { VolumeParameters;
    "type", "`gp3`, `gp2`, `io2`, `io1`, `st1`, `sc1`, `standard`; EC2 checks any other type", "EBS volume type",
        default "`gp3`" => |p, e| p.volume_type = e.volume_type();
    "iops", COUNT,
        "IOPS of the volume (gp3, io1, io2; ignored for other types), capped at the maximum of the type with a warning in the log",
        default "EC2's", not "`iopsPerGB`" => |p, e| p.iops = e.positive()?;
    "iopsPerGB", COUNT,
        "IOPS for each GiB of the volume (gp3, io1, io2; ignored for other types), within the type's limits, recorded in the tag \
         `ebs.csi.aws.com/IOPSPerGb`",
        not "`iops`" => |p, e| p.iops_per_gib = e.positive()?;
    "allowAutoIOPSPerGBIncrease", FLAG, "raise IOPS to the minimum of the type when they are below it",
        default "`false`" => |p, e| p.raise_iops_to_min = e.flag()?;
    "allowAutoIOPSIncreaseOnModify", FLAG,
        "raise IOPS by the recorded `iopsPerGB` when the volume grows, recorded in the tag \
         `ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify`",
        default "`false`" => |p, e| p.auto_iops_on_modify = e.boolean()?;
    "throughput", COUNT, "throughput in MiB/s (gp3); ignored for other types",
        default "EC2's, 125" => |p, e| p.throughput = e.positive()?;
    "volumeInitializationRate", COUNT,
        "MiB/s at which EC2 loads the data of the snapshot (100 to 300); ignored for a volume without a snapshot"
        => |p, e| p.initialization_rate = e.positive()?;
    "encrypted", FLAG,
        "encrypt the volume; with `false`, the account's setting, an encrypted source or `kmsKeyId` still encrypts it",
        default "the account's setting" => |p, e| p.encrypted = e.boolean()?;
    "kmsKeyId", "a KMS key by its ARN or id, or an alias or its ARN",
        "encryption key, which encrypts the volume even with `encrypted: false`; the clone of an encrypted volume must use the key of its source",
        default "the account's default key" => |p, e| p.kms_key_id = e.text();
    "blockSize", SIZE, "bytes of a block of the file system: 1024 to 65536"
        => |p, e| p.format.block_size = e.size_word()?;
    "inodeSize", SIZE, "bytes of an inode: a power of 2, 128 to 4096 for ext, 512 to 2048 for xfs"
        => |p, e| p.format.inode_size = e.size_word()?;
    "bytesPerInode", SIZE, "bytes for each inode: 1024 to 67108864",
        not "xfs" => |p, e| p.format.bytes_per_inode = e.size_word()?;
    "numberOfInodes", SIZE, "number of inodes", not "xfs" => |p, e| p.format.number_of_inodes = e.size_word()?;
    "ext4BigAlloc", FLAG, "ext4 with clusters of blocks",
        default "`false`", not "every file system but ext4" => |p, e| p.format.bigalloc = e.flag()?;
    "ext4ClusterSize", SIZE, "bytes of a cluster; needs `ext4BigAlloc: \"true\"`",
        not "every file system but ext4" => |p, e| p.format.cluster_size = e.size_word()?;
    "ext4EncryptionSupport", FLAG, "ext4 that can encrypt directories",
        default "`false`", not "every file system but ext4" => |p, e| p.format.encryption = e.flag()?;
    "formatBlankRestore", FLAG,
        "a volume from a snapshot or a clone may be formatted when it is proven blank; otherwise never",
        default "`false`" => |p, e| p.format_blank_restore = e.flag()?;
    "blockAttachUntilInitialized", FLAG, "attach the volume only when EC2 has loaded all data of its snapshot",
        default "`false`" => |p, e| p.block_until_initialized = e.flag()?;
    PVC_NAME_KEY, FROM_PROVISIONER, "tag `kubernetes.io/created-for/pvc/name`, and `.PVCName` in templates"
        => |p, e| p.claim.pvc_name = e.value.to_owned();
    PVC_NAMESPACE_KEY, FROM_PROVISIONER,
        "tag `kubernetes.io/created-for/pvc/namespace`, and `.PVCNamespace` in templates"
        => |p, e| p.claim.pvc_namespace = e.value.to_owned();
    PV_NAME_KEY, FROM_PROVISIONER, "tag `kubernetes.io/created-for/pv/name`, and `.PVName` in templates"
        => |p, e| p.claim.pv_name = e.value.to_owned();
    "fsType", "any",
        "none, deprecated: the file system is `csi.storage.k8s.io/fstype`, which the provisioner reads"
        => |_, e| e.log_deprecated();
    "blockExpress", "any", "none, deprecated" => |_, e| e.log_deprecated();
}
