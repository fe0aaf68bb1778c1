//! Errors of the metadata service.

use std::error::Error;
use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Field {
    /// The session token, which is requested first.
    Token,
    Document,
    InstanceId,
    InstanceType,
    Region,
    Zone,
    NetworkInterfaces,
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

/// An error of the metadata service. Every message names the source (IMDS) and the field.
#[derive(Debug, thiserror::Error)]
pub enum MetadataError {
    #[error("IMDS is disabled by AWS_EC2_METADATA_DISABLED; unset this variable or use another metadata source")]
    Disabled,
    #[error(
        "IMDS does not report the id of a SageMaker HyperPod node (CSI_NODE_NAME begins with hyperpod-); use the \
         metadata source kubernetes"
    )]
    HyperPod,
    #[error("AWS_EC2_METADATA_SERVICE_ENDPOINT={given:?} is invalid: expected an http:// URL with a host")]
    BadEndpoint { given: String },
    #[error(
        "read {field} from IMDS: no answer from {endpoint}; on EC2, enable the metadata service with a hop limit of at \
         least 2 for containers"
    )]
    NoAnswer {
        field: Field,
        endpoint: String,
        /// False if the operating system reports that no service is reachable.
        may_pass: bool,
        #[source]
        source: Option<Box<dyn Error + Send + Sync>>,
    },
    #[error("read {field} from IMDS: {endpoint} returned HTTP status {status}")]
    Status { field: Field, endpoint: String, status: u16 },
    #[error("parse the identity document from IMDS")]
    BadDocument(#[source] serde_json::Error),
    #[error("read {field} from IMDS: the value is missing or empty")]
    Missing { field: Field },
    #[error("parse {field} from IMDS")]
    Invalid {
        field: Field,
        #[source]
        source: ebs_ec2::IdError,
    },
}

impl MetadataError {
    /// True if a retry may succeed because the service or the machine was only slow or overloaded.
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
