//! The words of Windows storage as types. Whatever a client wrote is parsed into one of these before the host hears of it.

mod disk_ids;
mod names;
mod numbers;
mod secret;
mod volume_guid;
mod win_path;

pub use disk_ids::{DiskIds, DiskLocation};
pub use names::{Iqn, NameError, PortalAddress, ServiceName};
pub use numbers::{DiskNumber, PartitionNumber};
pub use secret::Secret;
pub use volume_guid::{VolumeGuid, VolumeIdError};
pub use win_path::{Component, WinPath};
