//! Why a Node does not say what its machine is.

use std::time::Duration;

use ebs_types::IdError;

use super::provider_id::ProviderIdError;
use crate::Failure;

/// Why a Node object does not tell what is asked of it. Every message names the Node and what to do.
#[derive(Debug, thiserror::Error)]
pub enum NodeMetadataError {
    /// Which Node is this machine's?
    #[error(
        "CSI_NODE_NAME is not set: it must be the name of this machine's Node (the chart takes it from spec.nodeName)"
    )]
    NoName,
    /// There is no way to ask.
    #[error("there is no Kubernetes to ask: {reason}")]
    NoCluster {
        /// Why.
        reason: String,
    },
    /// The API server does not answer as it should.
    #[error("the Node {node} cannot be read")]
    Unread {
        /// The Node.
        node: String,
        /// What happened.
        #[source]
        source: Failure,
    },
    /// The API server does not answer in time.
    #[error("the Node {node} cannot be read: no answer within {within:?}")]
    NoAnswer {
        /// The Node.
        node: String,
        /// The time.
        within: Duration,
    },
    /// There is no such Node.
    #[error("Kubernetes has no Node {node}: CSI_NODE_NAME must be the name of this machine's Node")]
    NoSuchNode {
        /// The name.
        node: String,
    },
    /// Which instance is it?
    #[error("the Node {node} does not tell its instance")]
    ProviderId {
        /// The Node.
        node: String,
        /// What is wrong with its provider id.
        #[source]
        source: ProviderIdError,
    },
    /// A label that the cloud controller manager or the kubelet writes.
    #[error(
        "the Node {node} has no label {label}: the cluster's cloud controller manager writes it, or label the Node by hand"
    )]
    MissingLabel {
        /// The Node.
        node: String,
        /// The label.
        label: &'static str,
    },
    /// A label whose value cannot be one.
    #[error("the label {label} of the Node {node} cannot be used")]
    BadLabel {
        /// The Node.
        node: String,
        /// The label.
        label: &'static str,
        /// What is wrong with it.
        #[source]
        source: IdError,
    },
    /// The labeler has not come to this Node.
    #[error(
        "the Node {node} has no number in its label {labels}: the metadata labeler writes it (chart value \
         sidecars.metadataLabeler.enabled), and has not yet, or cannot"
    )]
    NotLabelled {
        /// The Node.
        node: String,
        /// Those that are missing.
        labels: String,
    },
}

impl NodeMetadataError {
    /// What the machine is, when it is positive that it is no EC2 instance.
    pub(super) fn foreign(&self) -> Option<String> {
        match self {
            Self::ProviderId { source: ProviderIdError::Foreign { given }, .. } => {
                Some(format!("its Node's spec.providerID is {given:?}"))
            }
            _ => None,
        }
    }

    /// Somebody else may be about to write what is missing.
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
