//! EBS policy over the EC2 port: what it takes until a volume, an attachment or a snapshot *is* as it should be.
//!
//! The port makes single calls; this crate knows which call to make, what an answer proves and what it does not.
//! Three rules run through all of it:
//!
//! - **A mutation is never repeated blindly.** A call whose outcome is unknown is followed by describes. What is not
//!   seen within 15 s of a mutating call may still exist: EC2's reads may lag that far behind its writes.
//! - **No final error while something may have been left behind.** Final errors are given on proof only.
//! - **An operation outlives its request.** Before each mutation it asks whether anybody still waits, and a call in
//!   flight is always awaited to its end. Looking goes on without waiters, so that clients with short deadlines find
//!   done what took longer.

mod attachment;
mod bounds;
mod call;
mod cloud;
mod context;
mod describe;
mod error;
mod lease_terms;
mod object;
mod op;
mod policy_observer;
mod recent_writes;
mod refused;
mod snapshot;
mod spec;
mod volume;
mod wall_clock;

pub use attachment::{AttachmentService, PendingDetach};
pub use cloud::Cloud;
pub use ebs_ec2::{Ec2, LockSnapshot, Page, Snapshot, SnapshotState, Volume, VolumeState};
pub use error::{CloudError, CloudErrorKind};
pub use lease_terms::Sidecar;
pub use object::Object;
pub use snapshot::SnapshotService;
pub use spec::{
    Attached, CapacityRequest, CloudConfig, Ensured, Lock, LockEnd, LockMode, ModifySpec, SnapshotFeatures,
    SnapshotSpec, Source, Term, Topology, VolumeSpec,
};
pub use volume::VolumeService;
