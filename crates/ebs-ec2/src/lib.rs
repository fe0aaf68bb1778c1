//! The port to EC2: one small trait for each kind of resource, one method for each EC2 action, one error.
//!
//! The policy (`ebs-cloud`) uses these traits and knows no SDK. `ebs-aws` implements them over the AWS SDK's runtime,
//! and `ebs-sim` over its state in memory. A method makes exactly one call and returns EC2's answer unchanged. It does
//! not retry mutating calls, does not wait, and reads only the requested page.
//!
//! Cancellation: dropping a returned future may leave the call done or not done. Policy that must know the outcome
//! never drops one.
#![warn(missing_docs)]

mod action;
mod attachments;
mod cluster_nodes;
mod error;
mod instances;
mod page;
mod places;
mod snapshots;
mod volume_status;
mod volumes;

pub use action::{Action, Attempt, AttemptOutcome, Observation, Observer};
pub use attachments::{AttachRequest, Attachment, AttachmentState, Attachments, DetachRequest};
pub use cluster_nodes::{ClusterNodeDevice, ClusterNodes};
pub use error::{Ec2Error, ErrorClass, Limit};
pub use instances::{BlockDevice, Instance, InstanceTypeInfo, Instances};
pub use page::{MAX_FILTER_VALUES, Page, PageRequest};
pub use places::{Zone, Zones};
pub use snapshots::{
    CreateSnapshot, FastRestoreFailure, FastRestores, LockSnapshot, LockState, Snapshot, SnapshotLock, SnapshotQuery,
    SnapshotState, Snapshots,
};
pub use volume_status::VolumeStatus;
pub use volumes::{
    CopyVolume, CreateVolume, Modification, ModificationState, ModifyVolume, Place, Volume, VolumeQuery, VolumeState,
    Volumes,
};

/// The result of every method of the port.
pub type Result<T> = std::result::Result<T, Ec2Error>;

/// All of EC2 that the driver uses.
pub trait Ec2: Volumes + Attachments + ClusterNodes + Snapshots + Instances + Zones + Send + Sync + 'static {}

impl<T: Volumes + Attachments + ClusterNodes + Snapshots + Instances + Zones + Send + Sync + 'static> Ec2 for T {}
