//! Attachments of volumes to nodes.

mod attach;
mod attach_call;
mod await_modified;
mod detach;
mod detach_call;
mod device_name;
mod instance_cache;
mod node_attachment;
mod node_local;
mod pairs;
mod pending_detaches;
mod proof;
mod service;

pub use pending_detaches::PendingDetach;
pub use service::AttachmentService;
