//! What the controller tells the node: the volume context, written once when a volume is created (or by hand in a static
//! PersistentVolume), and the publish context, written with each attachment. Both travel through the orchestrator as
//! string maps; this module is the only one that knows their keys and how their values are written.

mod format_key;
mod publish_context;
mod volume_context;

pub use format_key::FormatKey;
pub use publish_context::{PublishContext, VolumeOrigin};
pub use volume_context::VolumeContext;

use ebs_mounter::PartitionError;

/// A value that the node cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// A key of the publish context that must be there.
    #[error("the publish context has no key {key}")]
    Missing { key: &'static str },
    /// A value of the publish context.
    #[error("publish context key {key} is {value:?}, but must be {wanted}")]
    PublishValue { key: String, value: String, wanted: &'static str },
    #[error("volume context key {key} is not valid: {rule}")]
    Format {
        key: FormatKey,
        /// What its value must be.
        rule: String,
    },
    /// The number of a partition.
    #[error("volume context key {} is not valid", volume_context::PARTITION)]
    Partition(#[from] PartitionError),
}

#[cfg(test)]
mod tests;
