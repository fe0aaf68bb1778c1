//! Who am I: the instance this node runs on, asked of the instance metadata service or of another [`Source`], and how many
//! volumes it can have attached.
//!
//! [`Machine`] asks its sources and keeps the answer, [`NodeMetadata`]; [`attach_limit`] is arithmetic over that. The source
//! of this crate is [`Imds`]; others are given to it.
#![warn(missing_docs)]

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
    /// EBS volumes besides the root.
    pub block_devices: BlockDevices,
}

/// How many EBS volumes besides the root a machine has, by who counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BlockDevices {
    /// Those that were attached when the instance started, the driver's own among them; later ones are not counted.
    AtBoot(u32),
    /// Those that are none of the driver's.
    Others(u32),
}
