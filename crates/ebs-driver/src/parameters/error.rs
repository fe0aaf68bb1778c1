//! Why a parameter is refused.

use ebs_types::VolumeType;

use crate::status::{IntoStatus, Meaning};
use crate::tags::TagError;

/// A parameter that is refused: which one, its value, and the rule. Always InvalidArgument.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParameterError {
    /// Not a parameter.
    #[error("parameter {key:?} is not known to this driver")]
    Unknown {
        /// As spelt.
        key: String,
    },
    /// Two spellings of one key.
    #[error("parameters {first:?} and {second:?} are the same key in different case")]
    Twice {
        /// One spelling.
        first: String,
        /// The other.
        second: String,
    },
    /// Not a truth value.
    #[error("parameter {key}: {value:?} is neither \"true\" nor \"false\"")]
    Boolean {
        /// As spelt.
        key: String,
        /// As given.
        value: String,
    },
    /// Not a number.
    #[error("parameter {key}: {value:?} is not a whole number between -2147483648 and 2147483647")]
    Integer {
        /// As spelt.
        key: String,
        /// As given.
        value: String,
    },
    /// Something else than letters and digits.
    #[error("parameter {key}: {value:?} may consist of the letters A-Z, a-z and digits only")]
    Alphanumeric {
        /// As spelt.
        key: String,
        /// As given.
        value: String,
    },
    /// Two ways to say how many IOPS.
    #[error("iops ({iops}) and iopsPerGB ({per_gib}) cannot both be set: choose one")]
    TwoIops {
        /// Absolute.
        iops: u32,
        /// Per GiB.
        per_gib: u32,
    },
    /// Not what it is to be.
    #[error("parameter {key}: {value:?} is not {wanted}")]
    Malformed {
        /// As spelt.
        key: String,
        /// As given.
        value: String,
        /// What it is to be.
        wanted: &'static str,
    },
    /// A formatting option that the capability rules out.
    #[error("parameter {key} cannot be used with {with}")]
    Formatting {
        /// The option, lower case.
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
    /// Multi-attach on another type.
    #[error("a block volume for several nodes (MULTI_NODE_MULTI_WRITER) must be of type io2, not {volume_type}")]
    MultiAttachType {
        /// The effective type.
        volume_type: VolumeType,
    },
    /// Encryption that a clone cannot have.
    #[error("parameter encrypted is \"false\", but a clone has the encryption of its source: leave it out")]
    CloneUnencrypted,
    /// A tag.
    #[error(transparent)]
    Tag(#[from] TagError),
}

impl IntoStatus for ParameterError {
    fn meaning(&self) -> Meaning {
        Meaning::InvalidArgument
    }
}
