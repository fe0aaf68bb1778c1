//! What the node service asks of a machine's storage: of Windows itself, or of a csi-proxy that stands before it.

use std::collections::BTreeMap;
use std::time::Duration;

use winstorage::Storage;
use winstorage::host::Space;
use winstorage::service::{Contents, Found, VolumeStats};
use winstorage::types::{DiskIds, DiskNumber};

use crate::error::Cause;

/// What a path is for: not everybody who is asked can tell a link from a mount point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// A staging path: volumes are mounted there.
    Staging,
    /// A target: a link stands there.
    Target,
}

/// What a look at a disk has shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Seen {
    /// The disk was read, or Windows itself recognises what is on it.
    Read(Contents),
    /// Windows recognises nothing, and the proxy cannot read the disk: it may hold anything.
    Unread {
        /// What it would be if it were blank.
        contents: Contents,
        /// The operator has allowed formatting without a proof.
        may_format: bool,
    },
}

macro_rules! operations {
    ($($(#[$attribute:meta])* $name:ident($($argument:ident: $type:ty),*) -> $answer:ty;)+) => {
        /// The operations, each as [`Storage`] has it. All of them **block**: call them from a thread that may wait.
        pub trait NodeStorage: Send + Sync {
            /// What stands at the path, itself.
            ///
            /// # Errors
            /// The path may not be named, or the machine failed.
            fn look(&self, path: &str, role: Role) -> Result<Found, Cause>;
            /// What is on a disk that is online. Equal seeds read equal places.
            ///
            /// # Errors
            /// The disk is not there, or the machine failed.
            fn disk_contents(&self, disk: DiskNumber, seed: &str) -> Result<Seen, Cause>;
            /// Holds the calling thread for `time`.
            fn pause(&self, time: Duration);
            $(
                $(#[$attribute])*
                ///
                /// # Errors
                /// It was refused, or the machine failed.
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
    /// The disk of an EBS volume; a late one is waited for.
    disk_of_ebs_volume(volume: &str, device: &str) -> DiskNumber;
    /// The same, of the disks that there are now.
    present_disk_of_ebs_volume(volume: &str, device: &str) -> Option<DiskNumber>;
    /// What every disk says it is.
    list_disk_ids() -> BTreeMap<DiskNumber, DiskIds>;
    /// The disk that a volume of Windows is on.
    disk_number_of_volume(volume: &str) -> DiskNumber;
    /// The volume that a path shows.
    volume_of_path(path: &str) -> winstorage::types::VolumeGuid;
    /// Gives an empty disk a partition, and brings that online.
    partition_disk(disk: DiskNumber) -> ();
    /// Makes an NTFS on a volume without a file system.
    format_volume(volume: &str) -> ();
    /// True where the disk is online.
    disk_state(disk: DiskNumber) -> bool;
    /// Brings the disk online or takes it offline.
    set_disk_state(disk: DiskNumber, online: bool) -> ();
    /// Bytes of the disk.
    disk_size(disk: DiskNumber) -> u64;
    /// Looks for disks that came, went or grew.
    rescan() -> ();
    /// Bytes of a volume's file system.
    volume_stats(volume: &str) -> VolumeStats;
    /// Grows a volume to all that there is where `size` is 0; its bytes afterwards.
    resize_volume(volume: &str, size: i64, patience: Duration) -> u64;
    /// Makes a directory, and those above it.
    mkdir(path: &str) -> ();
    /// Removes an entry: a link as a link, a directory only when it is empty unless `force`.
    rmdir(path: &str, force: bool) -> ();
    /// Makes an empty directory a mount point.
    mount_volume(volume: &str, path: &str) -> ();
    /// Flushes the volume, and makes the mount point an empty directory.
    unmount_volume(volume: &str, path: &str) -> ();
    /// Makes a link at `link` that leads to `source`; one that does so already is right.
    create_symlink(source: &str, link: &str) -> ();
    /// Space of the volume at a path.
    space(path: &str) -> Space;
}
