//! Errors of reading metadata from a Node.

use std::time::Duration;

use ebs_types::IdError;

use super::provider_id::ProviderIdError;
use crate::Failure;

/// Why a Node object does not have the required metadata. Every message names the Node and the next step.
#[derive(Debug, thiserror::Error)]
pub enum NodeMetadataError {
    /// The name of this machine's Node is unknown.
    #[error(
        "CSI_NODE_NAME is not set: it must be the name of this machine's Node (the chart takes it from spec.nodeName)"
    )]
    NoName,
    /// There is no connection to an API server.
    #[error("there is no Kubernetes to ask: {reason}")]
    NoCluster {
        /// The reason.
        reason: String,
    },
    /// The API server answered with an error.
    #[error("the Node {node} cannot be read")]
    Unread {
        /// The Node.
        node: String,
        /// The underlying error.
        #[source]
        source: Failure,
    },
    /// The API server did not answer in time.
    #[error("the Node {node} cannot be read: no answer within {within:?}")]
    NoAnswer {
        /// The Node.
        node: String,
        /// The time limit.
        within: Duration,
    },
    /// The Node does not exist.
    #[error("Kubernetes has no Node {node}: CSI_NODE_NAME must be the name of this machine's Node")]
    NoSuchNode {
        /// The name.
        node: String,
    },
    /// The Node has no valid provider id.
    #[error("the Node {node} does not tell its instance")]
    ProviderId {
        /// The Node.
        node: String,
        /// The problem with its provider id.
        #[source]
        source: ProviderIdError,
    },
    /// A label is missing that the cloud controller manager or the kubelet writes.
    #[error(
        "the Node {node} has no label {label}: the cluster's cloud controller manager writes it, or label the Node by hand"
    )]
    MissingLabel {
        /// The Node.
        node: String,
        /// The label.
        label: &'static str,
    },
    /// A label has an invalid value.
    #[error("the label {label} of the Node {node} cannot be used")]
    BadLabel {
        /// The Node.
        node: String,
        /// The label.
        label: &'static str,
        /// The problem with its value.
        #[source]
        source: IdError,
    },
    /// The labeler has not labelled this Node.
    #[error(
        "the Node {node} has no number in its label {labels}: the metadata labeler writes it (chart value \
         sidecars.metadataLabeler.enabled), and has not yet, or cannot"
    )]
    NotLabelled {
        /// The Node.
        node: String,
        /// The missing labels.
        labels: String,
    },
}

impl NodeMetadataError {
    /// Describes the machine if it is certainly not an EC2 instance.
    pub(super) fn foreign(&self) -> Option<String> {
        match self {
            Self::ProviderId { source: ProviderIdError::Foreign { given }, .. } => {
                Some(format!("its Node's spec.providerID is {given:?}"))
            }
            _ => None,
        }
    }

    /// True if another process may be about to write the missing value.
    pub(super) fn may_pass(&self) -> bool {
        match self {
            Self::ProviderId { source, .. } => *source == ProviderIdError::Empty,
            Self::Unread { .. } | Self::MissingLabel { .. } | Self::NotLabelled { .. } | Self::NoSuchNode { .. } => {
                true
            }
            Self::NoName | Self::NoCluster { .. } | Self::NoAnswer { .. } | Self::BadLabel { .. } => false,
        }
    }
}
