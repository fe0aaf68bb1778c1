//! The string maps that the controller sends to the node: the volume context, once for each volume, and the publish
//! context, for each attachment. Only this module defines their keys and formats.

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
