//! The EBS policy over the EC2 port: which calls bring a volume, an attachment or a snapshot into the requested state,
//! and what their answers prove. It follows three rules:
//!
//! - **Never repeat a mutation blindly.** After a call with an unknown outcome, describe first. EC2's reads may be
//!   stale for 15 s after a write, so an object that EC2 does not list within this time may still exist.
//! - **Never return a final error while an attempt may have left something behind.** A final error needs a proof.
//! - **An operation outlives its request.** It checks before each mutation whether a client still waits, and always
//!   awaits a call in flight. It describes even when no client waits, so that retries with short deadlines succeed.

mod attachment;
mod cloud;
mod context;
mod describe;
mod error;
mod error_map;
mod lease_terms;
mod object;
mod op_context;
mod recent_writes;
mod retry;
mod snapshot;
mod spec;
mod timeouts;
mod traffic;
mod volume;
mod wall_clock;

pub use attachment::{AttachmentService, PendingDetach};
pub use cloud::Cloud;
pub use ebs_ec2::{Ec2, Page, Snapshot, SnapshotState, Volume, VolumeState};
pub(crate) use error::Result;
pub use error::{CloudError, CloudErrorKind};
pub use lease_terms::Sidecar;
pub use object::Object;
pub use snapshot::SnapshotService;
pub use spec::{
    Attached, CapacityRequest, CloudConfig, Lock, LockEnd, LockMode, ModifySpec, SnapshotFeatures, SnapshotSpec,
    Source, Term, Topology, VolumeSpec,
};
pub use traffic::{RateLimited, pages};
pub use volume::VolumeService;
