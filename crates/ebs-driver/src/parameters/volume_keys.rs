//! The keys of a StorageClass for the parser, with their documentation.

use super::{Described, PV_NAME_KEY, PVC_NAME_KEY, PVC_NAMESPACE_KEY};
use crate::context::FormatKey;

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    Type,
    Iops,
    IopsPerGib,
    RaiseIops,
    AutoIopsOnModify,
    Throughput,
    InitializationRate,
    Encrypted,
    KmsKeyId,
    PvcName,
    PvcNamespace,
    PvName,
    Ignored,
    Format(FormatKey),
    BlockUntilInitialized,
    FormatBlankRestore,
}

const COUNT: &str = "whole number; 0 or less: unset";
const FLAG: &str = "`true` or `false`";
const SIZE: &str = "letters and digits";
const FROM_PROVISIONER: &str = "text; added by the provisioner (`--extra-create-metadata`)";
const EXT_ONLY: &str = "xfs";
const EXT4_ONLY: &str = "every file system but ext4";

/// Every key, in the order of the documentation.
pub(super) const KEYS: [(Parameter, Described); 23] = [
    (
        Parameter::Type,
        Described::new(
            "type",
            "`gp3`, `gp2`, `io2`, `io1`, `st1`, `sc1`, `standard`; EC2 checks any other type",
            "EBS volume type",
        )
        .with_default("`gp3`"),
    ),
    (
        Parameter::Iops,
        Described::new("iops", COUNT, "IOPS of the volume (gp3, io1, io2; ignored for other types), capped at the maximum of the type with a warning in the log")
            .with_default("EC2's")
            .with_conflicts("`iopsPerGB`"),
    ),
    (
        Parameter::IopsPerGib,
        Described::new(
            "iopsPerGB",
            COUNT,
            "IOPS for each GiB of the volume (gp3, io1, io2; ignored for other types), within the type's limits, recorded in the tag \
             `ebs.csi.aws.com/IOPSPerGb`",
        )
        .with_conflicts("`iops`"),
    ),
    (
        Parameter::RaiseIops,
        Described::new("allowAutoIOPSPerGBIncrease", FLAG, "raise IOPS to the minimum of the type when they are below it")
            .with_default("`false`"),
    ),
    (
        Parameter::AutoIopsOnModify,
        Described::new(
            "allowAutoIOPSIncreaseOnModify",
            FLAG,
            "raise IOPS by the recorded `iopsPerGB` when the volume grows, recorded in the tag \
             `ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify`",
        )
        .with_default("`false`"),
    ),
    (
        Parameter::Throughput,
        Described::new("throughput", COUNT, "throughput in MiB/s (gp3); ignored for other types").with_default("EC2's, 125"),
    ),
    (
        Parameter::InitializationRate,
        Described::new(
            "volumeInitializationRate",
            COUNT,
            "MiB/s at which EC2 loads the data of the snapshot (100 to 300); ignored for a volume without a snapshot",
        ),
    ),
    (
        Parameter::Encrypted,
        Described::new(
            "encrypted",
            FLAG,
            "encrypt the volume; with `false`, the account's setting, an encrypted source or `kmsKeyId` still encrypts it",
        )
        .with_default("the account's setting"),
    ),
    (
        Parameter::KmsKeyId,
        Described::new(
            "kmsKeyId",
            "a KMS key by its ARN or id, or an alias or its ARN",
            "encryption key, which encrypts the volume even with `encrypted: false`; the clone of an encrypted volume must use the key of its source",
        )
        .with_default("the account's default key"),
    ),
    (
        Parameter::Format(FormatKey::BlockSize),
        Described::new("blockSize", SIZE, "bytes of a block of the file system: 1024 to 65536"),
    ),
    (
        Parameter::Format(FormatKey::InodeSize),
        Described::new("inodeSize", SIZE, "bytes of an inode: a power of 2, 128 to 4096 for ext, 512 to 2048 for xfs"),
    ),
    (
        Parameter::Format(FormatKey::BytesPerInode),
        Described::new("bytesPerInode", SIZE, "bytes for each inode: 1024 to 67108864").with_conflicts(EXT_ONLY),
    ),
    (
        Parameter::Format(FormatKey::NumberOfInodes),
        Described::new("numberOfInodes", SIZE, "number of inodes").with_conflicts(EXT_ONLY),
    ),
    (
        Parameter::Format(FormatKey::Bigalloc),
        Described::new("ext4BigAlloc", FLAG, "ext4 with clusters of blocks").with_default("`false`").with_conflicts(EXT4_ONLY),
    ),
    (
        Parameter::Format(FormatKey::ClusterSize),
        Described::new("ext4ClusterSize", SIZE, "bytes of a cluster; needs `ext4BigAlloc: \"true\"`").with_conflicts(EXT4_ONLY),
    ),
    (
        Parameter::Format(FormatKey::Encryption),
        Described::new("ext4EncryptionSupport", FLAG, "ext4 that can encrypt directories").with_default("`false`").with_conflicts(EXT4_ONLY),
    ),
    (
        Parameter::FormatBlankRestore,
        Described::new(
            "formatBlankRestore",
            FLAG,
            "a volume from a snapshot or a clone may be formatted when it is proven blank; otherwise never",
        )
        .with_default("`false`"),
    ),
    (
        Parameter::BlockUntilInitialized,
        Described::new(
            "blockAttachUntilInitialized",
            FLAG,
            "attach the volume only when EC2 has loaded all data of its snapshot",
        )
        .with_default("`false`"),
    ),
    (
        Parameter::PvcName,
        Described::new(PVC_NAME_KEY, FROM_PROVISIONER, "tag `kubernetes.io/created-for/pvc/name`, and `.PVCName` in templates"),
    ),
    (
        Parameter::PvcNamespace,
        Described::new(
            PVC_NAMESPACE_KEY,
            FROM_PROVISIONER,
            "tag `kubernetes.io/created-for/pvc/namespace`, and `.PVCNamespace` in templates",
        ),
    ),
    (
        Parameter::PvName,
        Described::new(PV_NAME_KEY, FROM_PROVISIONER, "tag `kubernetes.io/created-for/pv/name`, and `.PVName` in templates"),
    ),
    (
        Parameter::Ignored,
        Described::new("fsType", "any", "none, deprecated: the file system is `csi.storage.k8s.io/fstype`, which the provisioner reads"),
    ),
    (Parameter::Ignored, Described::new("blockExpress", "any", "none, deprecated")),
];
