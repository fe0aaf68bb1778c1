//! What can go wrong while asking.

use std::error::Error;
use std::fmt;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// A session token, before anything else.
    Token,
    /// The instance identity document.
    Document,
    /// `instanceId` of the document.
    InstanceId,
    /// `instanceType` of the document.
    InstanceType,
    /// `region` of the document.
    Region,
    /// `availabilityZone` of the document.
    Zone,
    /// The list of network interfaces.
    NetworkInterfaces,
    /// The block-device mapping.
    BlockDevices,
    /// The ARN of the instance's Outpost.
    Outpost,
}

impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Token => "the session token",
            Self::Document => "the identity document",
            Self::InstanceId => "instanceId",
            Self::InstanceType => "instanceType",
            Self::Region => "region",
            Self::Zone => "availabilityZone",
            Self::NetworkInterfaces => "network/interfaces/macs",
            Self::BlockDevices => "block-device-mapping",
            Self::Outpost => "outpost-arn",
        })
    }
}

/// Why the metadata is not known. Every message names the source (IMDS) and the field.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    /// Switched off.
    #[error("IMDS is switched off by AWS_EC2_METADATA_DISABLED: unset it, or name another metadata source")]
    Disabled,
    /// On a HyperPod node.
    #[error(
        "IMDS is not asked on a SageMaker HyperPod node (CSI_NODE_NAME begins with hyperpod-), where it does not know the node's \
         id: name kubernetes among the metadata sources"
    )]
    HyperPod,
    /// The address makes no sense.
    #[error("AWS_EC2_METADATA_SERVICE_ENDPOINT {given:?} is no http:// URL of a host")]
    BadEndpoint {
        /// The address.
        given: String,
    },
    /// No answer.
    #[error(
        "IMDS: {field} cannot be read: no answer from {endpoint}; on EC2, check that the metadata service is enabled and that its \
         hop limit is 2 or more for containers"
    )]
    NoAnswer {
        /// What was asked for.
        field: Field,
        /// Who was asked.
        endpoint: String,
        /// It may only have been slow; false where the machine says that nothing is there to ask.
        may_pass: bool,
        /// What happened.
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    /// An answer that refuses.
    #[error("IMDS: {field} cannot be read: HTTP status {status} from {endpoint}")]
    Status {
        /// What was asked for.
        field: Field,
        /// Who was asked.
        endpoint: String,
        /// The HTTP status.
        status: u16,
    },
    /// An answer that is no identity document.
    #[error("IMDS: the identity document is not the JSON it should be")]
    BadDocument(#[source] serde_json::Error),
    /// A field without a value.
    #[error("IMDS: {field} is missing or empty")]
    Missing {
        /// Which.
        field: Field,
    },
    /// A field whose value cannot be one.
    #[error("IMDS: {field} cannot be used")]
    Invalid {
        /// Which.
        field: Field,
        /// Why.
        #[source]
        source: ebs_types::IdError,
    },
}

impl MetadataError {
    /// True when the same question may be answered a moment later: the service, or the machine, was slow or had too much to do.
    pub fn may_pass(&self) -> bool {
        match self {
            Self::NoAnswer { may_pass, .. } => *may_pass,
            Self::Status { status, .. } => *status == 429 || *status >= 500,
            Self::Disabled
            | Self::HyperPod
            | Self::BadEndpoint { .. }
            | Self::BadDocument(_)
            | Self::Missing { .. }
            | Self::Invalid { .. } => false,
        }
    }
}
