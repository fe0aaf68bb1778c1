//! The storage operations that the node service needs. Windows itself or csi-proxy implements them.

use std::collections::BTreeMap;
use std::time::Duration;

use winstorage::host::Space;
use winstorage::locate::{DiskSearch, Look};
use winstorage::service::{Contents, Found, VolumeStats};
use winstorage::types::{DiskIds, DiskLocation, DiskNumber};
use winstorage::{Storage, StorageError};

use crate::error::Cause;

/// What a path is used for. Some implementations cannot distinguish a link from a mount point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    Staging,
    Target,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The disk was read, or Windows itself recognises its contents.
    Read(Contents),
    /// Windows recognises nothing and the proxy cannot read the disk, so the disk may contain anything.
    Unread { contents: Contents, may_format: bool },
}

fn look<S: NodeStorage + ?Sized>(storage: &S, search: &mut DiskSearch) -> Result<Look, Cause> {
    let places = storage.list_disk_locations().unwrap_or_else(|error| {
        tracing::warn!(%error, "failed to read the locations of disks");
        BTreeMap::new()
    });
    Ok(search.look(&storage.list_disk_ids()?, &places).map_err(StorageError::from)?)
}

macro_rules! operations {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        /// The operations, as in [`Storage`]. All of them **block**: call them only from a thread that may block.
        pub trait NodeStorage: Send + Sync {
            /// Returns what is at the path, without following a link.
            fn look(&self, path: &str, role: Role) -> Result<Found, Cause>;
            /// Returns the contents of a disk that is online. Calls with the same seed read the same places.
            fn disk_contents(&self, disk: DiskNumber, seed: &str) -> Result<Seen, Cause>;
            fn pause(&self, time: Duration);
            /// Returns the disk of an EBS volume that EC2 has attached as `device`. Waits some seconds for a disk that
            /// appears late.
            fn disk_of_ebs_volume(&self, volume: &str, device: &str) -> Result<DiskNumber, Cause> {
                let mut search = DiskSearch::new(volume, device);
                loop {
                    match look(self, &mut search)? {
                        Look::Found(disk) => return Ok(disk),
                        Look::RescanAndWait(time) => {
                            if let Err(error) = self.rescan() {
                                tracing::warn!(%error, "failed to rescan for a disk");
                            }
                            self.pause(time);
                        }
                    }
                }
            }
            fn present_disk_of_ebs_volume(&self, volume: &str, device: &str) -> Result<Option<DiskNumber>, Cause> {
                Ok(match look(self, &mut DiskSearch::new(volume, device))? {
                    Look::Found(disk) => Some(disk),
                    Look::RescanAndWait(_) => None,
                })
            }
            $(
                $(#[$attribute])*
                fn $name(&self, $($argument: $type),*) -> Result<$answer, Cause>;
            )+
        }

        impl NodeStorage for Storage {
            fn look(&self, path: &str, _role: Role) -> Result<Found, Cause> {
                Ok(Self::look(self, path)?)
            }

            fn disk_contents(&self, disk: DiskNumber, seed: &str) -> Result<Seen, Cause> {
                Ok(Seen::Read(Self::disk_contents(self, disk, seed)?))
            }

            fn pause(&self, time: Duration) {
                Self::pause(self, time);
            }

            $(fn $name(&self, $($argument: $type),*) -> Result<$answer, Cause> {
                Ok(Self::$name(self, $($argument),*)?)
            })+
        }
    };
}

operations! {
    /// Returns the location of every disk. Only disks without an EBS serial number are identified by their location.
    list_disk_locations() -> BTreeMap<DiskNumber, DiskLocation>;
    list_disk_ids() -> BTreeMap<DiskNumber, DiskIds>;
    disk_number_of_volume(volume: &str) -> DiskNumber;
    volume_of_path(path: &str) -> winstorage::types::VolumeGuid;
    /// Creates a partition on an empty disk and brings the partition online.
    partition_disk(disk: DiskNumber) -> ();
    format_volume(volume: &str) -> ();
    disk_state(disk: DiskNumber) -> bool;
    set_disk_state(disk: DiskNumber, online: bool) -> ();
    disk_size(disk: DiskNumber) -> u64;
    /// Rescans the machine for disks that were attached, detached or resized.
    rescan() -> ();
    volume_stats(volume: &str) -> VolumeStats;
    /// Grows a volume to `size`, or to its maximum if `size` is 0. Returns the new size in bytes.
    resize_volume(volume: &str, size: i64, patience: Duration) -> u64;
    mkdir(path: &str) -> ();
    /// Removes the entry at a path without following a link. Without `force`, a directory must be empty.
    rmdir(path: &str, force: bool) -> ();
    /// Makes an empty directory a mount point.
    mount_volume(volume: &str, path: &str) -> ();
    /// Flushes the volume, and turns the mount point into an empty directory.
    unmount_volume(volume: &str, path: &str) -> ();
    /// Creates a link from `link` to `source`. Succeeds if the link exists.
    create_symlink(source: &str, link: &str) -> ();
    space(path: &str) -> Space;
}
