//! How large a file system can become on a device.

use std::fmt;

/// An allocation group of XFS of less than this is left unused by mkfs.xfs and xfs_growfs.
const LEAST_XFS_GROUP: u64 = 16 << 20;

/// Why a file system cannot become as large as its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrowthLimit {
    /// Without the feature 64bit there are 2^32 - 1 blocks at most.
    BlockNumbers,
    /// There are 2^32 - 1 inodes at most, and each group of blocks brings its own.
    Inodes,
    /// The descriptors of all groups must fit into one group.
    Descriptors,
}

impl fmt::Display for GrowthLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::BlockNumbers => "it was made without the feature 64bit, so it has at most 2^32 - 1 blocks",
            Self::Inodes => {
                "a file system has at most 2^32 - 1 inodes, and each of its block groups has a fixed number"
            }
            Self::Descriptors => "the descriptors of its block groups must fit into one group",
        })
    }
}

/// How large a file system can become on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The size in bytes that the tools certainly reach.
    pub(crate) bytes: u64,
    /// The tools leave less than so many bytes unused.
    pub(crate) least_growth: u64,
    /// A part of the device of less than one group of the file system may stay unused without an error.
    pub(crate) group_bytes: u64,
    /// The blocks to ask resize2fs for. `None`: it takes the device as it is.
    pub(crate) blocks: Option<u64>,
    /// What keeps it from the end of the device, by more than one block group.
    pub(crate) limit: Option<GrowthLimit>,
}

impl Reach {
    /// Of any XFS: it grows to the end of its device.
    pub(crate) fn of_xfs(device: u64) -> Self {
        Self { bytes: device, least_growth: LEAST_XFS_GROUP, group_bytes: LEAST_XFS_GROUP, blocks: None, limit: None }
    }
}
