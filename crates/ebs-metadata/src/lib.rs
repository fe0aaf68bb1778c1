//! The instance on which this node runs, and the number of volumes that the driver can attach to it. [`Machine`]
//! queries the instance metadata service ([`Imds`]) or other [`Source`]s, which callers pass.

mod attach_limit;
mod document;
mod error;
mod imds;
mod machine;
mod plain;
mod source;

pub use attach_limit::{LimitFlagError, LimitFlags, attach_limit};
pub use error::{Field, MetadataError};
pub use imds::{Imds, ImdsOptions};
pub use machine::{Machine, NoMetadata};
pub use source::{Answer, Source, SourceError, SourceKind, UnknownSource, Unusable};

use ebs_ec2::{NodeId, OutpostArn, ZoneName};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMetadata {
    /// The node: an EC2 instance or a node of a SageMaker HyperPod cluster.
    pub node: NodeId,
    pub instance_type: String,
    pub region: String,
    pub zone: ZoneName,
    /// The Outpost on which the instance runs, or `None` if it runs in the region.
    pub outpost: Option<OutpostArn>,
    /// Number of attached network interfaces; 0 if the service lists none.
    pub network_interfaces: u32,
    /// EBS volumes other than the root.
    pub block_devices: BlockDevices,
}

/// How many EBS volumes other than the root a machine has, and which ones were counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockDevices {
    /// Volumes attached when the instance started, including the driver's. Volumes attached later are not counted.
    AtBoot(u32),
    /// Volumes that the driver does not manage.
    Others(u32),
}
