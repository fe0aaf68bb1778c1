//! The domain types: ids, sizes, volume types, tags, names and their tables.
//!
//! Nothing here does I/O or reads the clock. Parsing rejects invalid values and never repairs them silently.
#![warn(missing_docs)]

mod connection;
mod device_name;
mod hyperpod;
mod ids;
mod instance_limits;
mod iops;
mod kms_key;
mod names;
mod outpost_arn;
mod size;
mod split_mix;
mod tags;
mod tokens;
mod volume_type;
mod waiters;

pub use connection::ConnectionId;
pub use device_name::DeviceName;
pub use hyperpod::HyperPodNode;
pub use ids::{IdError, InstanceId, NodeId, SnapshotId, VolumeId, ZoneId, ZoneName};
pub use instance_limits::{AttachmentLimit, LimitKind, attachment_limit, ebs_cards, is_xen};
pub use iops::{Iops, IopsLimits, IopsRequest};
pub use kms_key::may_be_one_kms_key;
pub use names::DriverName;
pub use outpost_arn::OutpostArn;
pub use size::{Bytes, GIB, Gib, SizeError};
pub use split_mix::SplitMix64;
pub use tags::Tags;
pub use tokens::Tokens;
pub use volume_type::VolumeType;
pub use waiters::{Successor, Waiter, Waiters};
