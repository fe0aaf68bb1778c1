use ebs_cloud::{CloudError, CloudErrorKind};
use ebs_ec2::IdError;

use super::codes;
use crate::capability::CapabilityError;
use crate::capacity::CapacityError;
use crate::parameters::ParameterError;
use crate::rpc::Rpc;
use crate::status::{IntoStatus, Meaning, into_status};
use crate::tags::TagError;
use crate::topology::TopologyError;

/// An error of a controller RPC.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    #[error("the request has no {field}")]
    Missing { field: &'static str },
    #[error("{kind} {id:?} does not exist: this is not a valid EC2 id")]
    NoSuchId { kind: &'static str, id: String },
    #[error("snapshot {snapshot} does not exist")]
    NoSuchSnapshot { snapshot: String },
    #[error(
        "{handle} is a node-local volume: the driver publishes it on its node, but cannot expand, modify, snapshot or clone it"
    )]
    NodeLocal { handle: String },
    #[error(
        "{handle} is a node-local volume, but this feature is disabled; start the controller with --enable-node-local-volumes=true"
    )]
    NodeLocalOff { handle: String },
    #[error("{handle} names no device; use the handle of a node-local volume, such as local-ebs://dev/xvdbz")]
    NodeLocalHandle { handle: String },
    #[error("publish {handle} to {node}: EC2 does not describe the instances of HyperPod nodes to this account")]
    NodeLocalOnHyperPod { handle: String, node: String },
    /// The volume source has no ID. Ignoring the source would silently create a blank volume.
    #[error(
        "volume_content_source has neither a snapshot nor a volume; set the id of one, or omit the field for a blank volume"
    )]
    EmptySource,
    #[error("volume {volume} was not created for several nodes (multi-attach); {why}")]
    NotMultiAttach { volume: String, why: &'static str, published: bool },
    #[error("max_entries is {0}, but must be 0 or more")]
    MaxEntries(i32),
    #[error("starting_token {0:?} is not valid: a list with a snapshot_id has one page; list again without a token")]
    NoSuchToken(String),
    /// EC2's description of the volume has no zone, without which the orchestrator cannot choose a node.
    #[error("EC2 returned no zone for volume {volume}")]
    ZoneUnknown { volume: String },
    #[error("EC2 returned an invalid Outpost for volume {volume}")]
    OutpostUnknown {
        volume: String,
        #[source]
        cause: IdError,
    },
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    #[error(transparent)]
    Tag(#[from] TagError),
    #[error(transparent)]
    Capability(#[from] CapabilityError),
    #[error(transparent)]
    Capacity(#[from] CapacityError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error("{error}")]
    Cloud {
        rpc: Rpc,
        #[source]
        error: CloudError,
    },
}

impl ControllerError {
    pub(super) fn during(rpc: Rpc) -> impl FnOnce(CloudError) -> Self {
        move |error| Self::Cloud { rpc, error }
    }
}

into_status!(ControllerError);

impl IntoStatus for ControllerError {
    fn is_abandoned(&self) -> bool {
        matches!(self, Self::Cloud { error, .. } if error.kind == CloudErrorKind::Abandoned)
    }

    fn meaning(&self) -> Meaning {
        match self {
            Self::Missing { .. }
            | Self::NodeLocal { .. }
            | Self::NodeLocalOff { .. }
            | Self::NodeLocalHandle { .. }
            | Self::NodeLocalOnHyperPod { .. }
            | Self::EmptySource
            | Self::NotMultiAttach { published: false, .. }
            | Self::MaxEntries(_)
            | Self::Parameter(_)
            | Self::Tag(_)
            | Self::Capability(_)
            | Self::Topology(_) => Meaning::InvalidArgument,
            Self::NotMultiAttach { published: true, .. } => Meaning::AlreadyExists,
            Self::NoSuchId { .. } | Self::NoSuchSnapshot { .. } => Meaning::NotFound,
            Self::NoSuchToken(_) => Meaning::BadPageToken,
            Self::ZoneUnknown { .. } | Self::OutpostUnknown { .. } => Meaning::InProgress,
            Self::Capacity(error) => error.meaning(),
            Self::Cloud { rpc, error } => codes::meaning(*rpc, &error.kind).unwrap_or(Meaning::NotFound),
        }
    }

    fn next_step(&self) -> Option<String> {
        let hint = match self {
            Self::Cloud { error, .. } => match error.kind {
                CloudErrorKind::InProgress | CloudErrorKind::Abandoned => {
                    "call again with the same request to continue"
                }
                CloudErrorKind::OutcomeUnknown => {
                    "call again with the same request: the driver checks the outcome before it retries"
                }
                CloudErrorKind::Unavailable => "call again later",
                _ => return None,
            },
            Self::ZoneUnknown { .. } | Self::OutpostUnknown { .. } => "call again with the same request",
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

#[cfg(test)]
mod tests;
