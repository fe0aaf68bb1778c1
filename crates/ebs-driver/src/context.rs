//! The data that the controller sends to the node. The volume context is written when a volume is created (or by hand
//! in a static PersistentVolume), the publish context with each attachment. Both are string maps that the orchestrator
//! passes on. Only this module defines their keys and the format of their values.

mod format_key;
mod publish_context;
mod volume_context;

pub use format_key::FormatKey;
pub use publish_context::{PublishContext, VolumeOrigin};
pub use volume_context::VolumeContext;

use ebs_mounter::PartitionError;

/// A context value that the node cannot use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    #[error("the publish context has no key {key}")]
    Missing { key: &'static str },
    #[error("publish context key {key} is {value:?}, but must be {wanted}")]
    PublishValue { key: String, value: String, wanted: &'static str },
    #[error("volume context key {key} is not valid: {rule}")]
    Format { key: FormatKey, rule: String },
    #[error("volume context key {} is not valid", volume_context::PARTITION)]
    Partition(#[from] PartitionError),
}

#[cfg(test)]
mod tests;
