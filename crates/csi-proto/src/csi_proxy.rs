//! csi-proxy's API: the messages, clients and servers of its 23 pairs of group and version, generated from the files in
//! `proto/csi-proxy/`, and a function that connects a client.
//!
//! Each pair is a module, such as `disk::v1`. The protobuf packages are named after versions only, so messages of
//! different groups can have equal names. No module uses another.
//!
//! Three messages carry secrets. Their `Debug` output and their serialised form hide them.

mod client;
mod mounted;
#[cfg(windows)]
mod pipe;
mod secret;
mod served;
mod version;

pub use client::{ConnectError, Dial, Found, connect};
pub use mounted::says_not_mounted;
#[cfg(windows)]
pub use pipe::{Pipes, pipes};
pub use served::{Group, UnknownGroup, pipe_name, served};
pub use version::{BadVersion, Version};

/// This project's addition: reads the contents of a disk. It is served on the pipe of disk/v1.
pub mod contents {
    /// Version `v1`.
    #[expect(clippy::too_many_lines, missing_docs, reason = "generated")]
    pub mod v1 {
        include!(concat!(env!("OUT_DIR"), "/contents/v1/ebs.csiproxy.v1.rs"));

        /// The service's name, which begins the path of its calls.
        pub const SERVICE: &str = "ebs.csiproxy.v1.DiskContents";
    }
}

macro_rules! generated {
    ($($(#[$attribute:meta])* $group:ident: $($version:ident)+;)+) => { $(
        $(#[$attribute])*
        pub mod $group { $(
            #[doc = concat!("Version `", stringify!($version), "`.")]
            #[expect(clippy::too_many_lines, missing_docs, reason = "generated")]
            pub mod $version {
                include!(concat!(env!("OUT_DIR"), "/", stringify!($group), "/", stringify!($version), "/", stringify!($version), ".rs"));
            }
        )+ }
    )+ };
}

generated! {
    /// Lists disks, partitions them, and takes them online and offline.
    disk: v1alpha1 v1beta1 v1beta2 v1beta3 v1;
    /// Lists, formats, mounts, grows and measures volumes.
    volume: v1alpha1 v1beta1 v1beta2 v1beta3 v1 v2alpha1;
    /// Works with paths below the proxy's directories.
    filesystem: v1alpha1 v1beta1 v1beta2 v1 v2alpha1;
    /// Maps SMB shares for all users of the node.
    smb: v1alpha1 v1beta1 v1beta2 v1;
    /// Manages iSCSI portals, targets and sessions.
    iscsi: v1alpha1 v1alpha2;
    /// Shows services and firmware of the node.
    system: v1alpha1;
}
