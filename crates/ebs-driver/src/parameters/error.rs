//! Why a parameter is refused.

use ebs_types::VolumeType;

use crate::status::{IntoStatus, Meaning};
use crate::tags::TagError;

/// A parameter that is refused: which one, its value, and the rule. Always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    #[error("parameter {key:?} is not known to this driver")]
    Unknown { key: String },
    /// Two spellings of one key.
    #[error("parameters {first:?} and {second:?} are the same key in different case")]
    Twice { first: String, second: String },
    #[error("parameter {key}: {value:?} is neither \"true\" nor \"false\"")]
    Boolean { key: String, value: String },
    #[error("parameter {key}: {value:?} is not a whole number between -2147483648 and 2147483647")]
    Integer { key: String, value: String },
    /// Something else than letters and digits.
    #[error("parameter {key}: {value:?} may consist of the letters A-Z, a-z and digits only")]
    Alphanumeric { key: String, value: String },
    /// Two ways to say how many IOPS.
    #[error("iops ({iops}) and iopsPerGB ({per_gib}) cannot both be set: choose one")]
    TwoIops { iops: u32, per_gib: u32 },
    /// Not what it is to be.
    #[error("parameter {key}: {value:?} is not {wanted}")]
    Malformed {
        key: String,
        value: String,
        /// What it is to be.
        wanted: &'static str,
    },
    /// A formatting option that the capability rules out.
    #[error("parameter {key} cannot be used with {with}")]
    Formatting {
        key: &'static str,
        /// What the capability asks for.
        with: String,
    },
    /// `ext4ClusterSize` alone.
    #[error("parameter ext4clustersize needs ext4bigalloc to be \"true\"")]
    ClusterSizeWithoutBigalloc,
    /// An initialization rate without snapshot.
    #[error("parameter volumeInitializationRate needs a snapshot as the volume's source")]
    InitializationRateWithoutSnapshot,
    #[error("a block volume for several nodes (MULTI_NODE_MULTI_WRITER) must be of type io2, not {volume_type}")]
    MultiAttachType { volume_type: VolumeType },
    /// Encryption that a clone cannot have.
    #[error("parameter encrypted is \"false\", but a clone has the encryption of its source: leave it out")]
    CloneUnencrypted,
    #[error(transparent)]
    Tag(#[from] TagError),
}

impl IntoStatus for ParameterError {
    fn meaning(&self) -> Meaning {
        Meaning::InvalidArgument
    }
}
