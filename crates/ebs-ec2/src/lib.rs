//! The port to EC2 with its types: a trait for each kind of resource, a method for each EC2 action, and one error type.
//!
//! The policy (`ebs-cloud`) uses these traits. `ebs-aws` implements them over the AWS SDK's runtime, and `ebs-sim` over
//! its state in memory. A method makes exactly one call and returns EC2's answer unchanged. It does not retry mutating
//! calls, does not wait, and reads only the requested page.
//!
//! Cancellation: if a returned future is dropped, EC2 may or may not carry out the call. A caller that must know the
//! outcome never drops the future.

mod action;
mod attachments;
mod cluster_nodes;
mod connection;
mod device_name;
mod error;
mod hyperpod;
mod ids;
mod instance_limits;
mod instances;
mod iops;
mod kms_key;
mod names;
mod outpost_arn;
mod page;
mod places;
mod size;
mod snapshots;
mod split_mix;
mod tags;
mod tokens;
mod volume_status;
mod volume_type;
mod volumes;
mod waiters;

pub use action::{Action, Attempt, AttemptOutcome, Observation, Observer};
pub use attachments::{AttachRequest, Attachment, AttachmentState, Attachments, DetachRequest};
pub use cluster_nodes::{ClusterNodeDevice, ClusterNodes};
pub use connection::ConnectionId;
pub use device_name::DeviceName;
pub use error::{Ec2Error, ErrorClass, Limit};
pub use hyperpod::HyperPodNode;
pub use ids::{IdError, InstanceId, NodeId, SnapshotId, VolumeId, ZoneId, ZoneName};
pub use instance_limits::{AttachmentLimit, LimitKind, attachment_limit, ebs_cards, is_xen};
pub use instances::{BlockDevice, Instance, InstanceTypeInfo, Instances};
pub use iops::{Iops, IopsLimits, IopsRequest};
pub use kms_key::may_be_one_kms_key;
pub use names::DriverName;
pub use outpost_arn::OutpostArn;
pub use page::{MAX_FILTER_VALUES, Page, PageRequest};
pub use places::{Zone, Zones};
pub use size::{Bytes, GIB, Gib, SizeError};
pub use snapshots::{
    CreateSnapshot, FastRestoreFailure, FastRestores, LockSnapshot, LockState, Snapshot, SnapshotLock, SnapshotQuery,
    SnapshotState, Snapshots,
};
pub use split_mix::SplitMix64;
pub use tags::Tags;
pub use tokens::Tokens;
pub use volume_status::VolumeStatus;
pub use volume_type::VolumeType;
pub use volumes::{
    CopyVolume, CreateVolume, Modification, ModificationState, ModifyVolume, Place, Volume, VolumeQuery, VolumeState,
    Volumes,
};
pub use waiters::{Successor, Waiter, Waiters};

pub type Result<T> = std::result::Result<T, Ec2Error>;

/// All EC2 actions that the driver uses.
pub trait Ec2: Volumes + Attachments + ClusterNodes + Snapshots + Instances + Zones + Send + Sync + 'static {}

impl<T: Volumes + Attachments + ClusterNodes + Snapshots + Instances + Zones + Send + Sync + 'static> Ec2 for T {}
