//! Errors of reading metadata from a Node.

use std::time::Duration;

use ebs_ec2::IdError;

use super::provider_id::ProviderIdError;
use crate::Failure;

/// Why a Node object does not have the required metadata. Every message names the Node and the next step.
#[derive(Debug, thiserror::Error)]
pub enum NodeMetadataError {
    #[error(
        "CSI_NODE_NAME is not set; set it to the name of this machine's Node (the chart sets it from spec.nodeName)"
    )]
    NoName,
    #[error("no connection to Kubernetes: {reason}")]
    NoCluster { reason: String },
    #[error("get Node {node}")]
    Unread { node: String, source: Failure },
    #[error("get Node {node}: no answer within {within:?}")]
    NoAnswer { node: String, within: Duration },
    #[error("get Node {node}: not found; set CSI_NODE_NAME to the name of this machine's Node")]
    NoSuchNode { node: String },
    #[error("read the instance id of Node {node}")]
    ProviderId { node: String, source: ProviderIdError },
    /// A label that the cloud controller manager or the kubelet writes is missing.
    #[error("Node {node} has no label {label}; run the cluster's cloud controller manager or label the Node by hand")]
    MissingLabel { node: String, label: &'static str },
    #[error("parse label {label} of Node {node}")]
    BadLabel { node: String, label: &'static str, source: IdError },
    /// The metadata labeler has not labelled this Node.
    #[error(
        "Node {node} has no number in its label {labels}; check that the metadata labeler runs (chart value \
         sidecars.metadataLabeler.enabled)"
    )]
    NotLabelled { node: String, labels: String },
}

impl NodeMetadataError {
    /// Describes the machine if it cannot be an EC2 instance.
    pub(super) fn foreign(&self) -> Option<String> {
        match self {
            Self::ProviderId { source: ProviderIdError::Foreign { given }, .. } => {
                Some(format!("its Node has spec.providerID {given:?}"))
            }
            _ => None,
        }
    }

    /// Returns true if another process may be about to write the missing value.
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
