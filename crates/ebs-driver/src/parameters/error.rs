use ebs_ec2::VolumeType;
use ebs_mounter::FsType;

/// A parameter that the driver refuses, with its key, its value and the rule. The code is always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    #[error("unknown parameter {key:?}; correct or remove it")]
    Unknown { key: String },
    #[error("parameters {first:?} and {second:?} differ only in case; keep one of them")]
    Twice { first: String, second: String },
    #[error("parameters iops ({iops}) and iopsPerGB ({per_gib}) are mutually exclusive; keep one of them")]
    TwoIops { iops: u32, per_gib: u32 },
    #[error("parameter {key} is {value:?}, but must be {wanted}")]
    Malformed { key: String, value: String, wanted: &'static str },
    #[error("parameter {key} cannot be used with {with}; remove it")]
    Formatting { key: &'static str, with: String },
    #[error("parameter ext4clustersize requires ext4bigalloc; set ext4bigalloc to \"true\", or remove it")]
    ClusterSizeWithoutBigalloc,
    /// mkfs rejects the value on every node.
    #[error("parameter {key} is {value:?}, but {fs_type} accepts {wanted}; correct it")]
    FormatValue { key: &'static str, value: String, fs_type: FsType, wanted: String },
    #[error(
        "a block volume for several nodes (MULTI_NODE_MULTI_WRITER) must be of type io2, not {volume_type}; set parameter type to io2"
    )]
    MultiAttachType { volume_type: VolumeType },
    #[error("invalid snapshot lock: {rule}")]
    Lock { rule: &'static str },
}
