//! Who am I: the instance this node runs on, asked of the instance metadata service, and how many volumes it can
//! have attached.
//!
//! [`Imds`] asks, [`NodeMetadata`] is the answer, [`attach_limit`] is arithmetic over it. Nothing here is cached: the
//! caller keeps the answer and refreshes what changes.
#![warn(missing_docs)]

mod attach_limit;
mod document;
mod error;
mod imds;
mod plain;

pub use attach_limit::{LimitFlagError, LimitFlags, attach_limit};
pub use error::{Field, MetadataError};
pub use imds::{Imds, ImdsOptions};

use ebs_types::{NodeId, OutpostArn, ZoneName};

/// What a node knows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeMetadata {
    /// The node: an instance, or one of a SageMaker HyperPod cluster.
    pub node: NodeId,
    /// Its type, `m5.large`.
    pub instance_type: String,
    /// Its region, unless `AWS_REGION` names another.
    pub region: String,
    /// Its zone.
    pub zone: ZoneName,
    /// The Outpost on which the instance runs; `None`: it runs in the region.
    pub outpost: Option<OutpostArn>,
    /// Network interfaces attached now; may be 0 when the service lists none.
    pub network_interfaces: u32,
    /// EBS volumes besides the root that were attached when the instance started; later ones are not counted.
    pub block_devices: u32,
}
