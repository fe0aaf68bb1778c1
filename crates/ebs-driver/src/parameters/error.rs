//! Why a parameter is refused.

use ebs_mounter::FsType;
use ebs_types::VolumeType;

use crate::status::{IntoStatus, Meaning};
use crate::tags::TagError;

/// A parameter that is refused: which one, its value, and the rule. Always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    #[error("parameter {key:?} is not known to this driver: correct or remove it")]
    Unknown { key: String },
    /// Two spellings of one key.
    #[error("parameters {first:?} and {second:?} differ only in case: keep one of them")]
    Twice { first: String, second: String },
    /// Two ways to say how many IOPS.
    #[error("parameters iops ({iops}) and iopsPerGB ({per_gib}) exclude each other: keep one of them")]
    TwoIops { iops: u32, per_gib: u32 },
    /// Not what it is to be.
    #[error("parameter {key} is {value:?}, but must be {wanted}")]
    Malformed {
        key: String,
        value: String,
        /// What it is to be.
        wanted: &'static str,
    },
    /// A formatting option that the capability rules out.
    #[error("parameter {key} cannot be used with {with}: remove it")]
    Formatting {
        key: &'static str,
        /// What the capability asks for.
        with: String,
    },
    /// `ext4ClusterSize` alone.
    #[error(
        "parameter ext4clustersize has an effect only with ext4bigalloc: set ext4bigalloc to \"true\", or remove it"
    )]
    ClusterSizeWithoutBigalloc,
    /// A value that mkfs refuses on every node.
    #[error("parameter {key} is {value:?}, but {fs_type} takes {wanted}: correct it")]
    FormatValue {
        key: &'static str,
        value: String,
        fs_type: FsType,
        /// What it takes.
        wanted: String,
    },
    #[error(
        "a block volume for several nodes (MULTI_NODE_MULTI_WRITER) must be of type io2, not {volume_type}: set parameter type to io2"
    )]
    MultiAttachType { volume_type: VolumeType },
    /// Parameters of a lock that cannot be one.
    #[error("the lock of the snapshot cannot be: {rule}")]
    Lock {
        /// Which parameter, why, and what to do.
        rule: &'static str,
    },
    #[error(transparent)]
    Tag(#[from] TagError),
}

impl IntoStatus for ParameterError {
    fn meaning(&self) -> Meaning {
        Meaning::InvalidArgument
    }
}
