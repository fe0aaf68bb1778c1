//! Types of Windows storage. The fields of a request are parsed into these types before the first call of the host.

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
