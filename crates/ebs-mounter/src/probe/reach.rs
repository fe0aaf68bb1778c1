//! The maximum size of a file system on a device.

use std::fmt;

/// Minimum bytes of an XFS allocation group. mkfs.xfs and xfs_growfs leave a smaller rest of the device unused.
const LEAST_XFS_GROUP: u64 = 16 << 20;

/// Why a file system cannot become as large as its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GrowthLimit {
    /// Without the feature 64bit there are at most 2^32 - 1 blocks.
    BlockNumbers,
    /// There are at most 2^32 - 1 inodes, and each block group has a fixed number of them.
    Inodes,
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reach {
    /// The size in bytes that the tools are certain to reach.
    pub(crate) bytes: u64,
    /// The tools leave less than this number of bytes unused.
    pub(crate) least_growth: u64,
    /// Bytes in one group of the file system. Unused space below this size is not an error.
    pub(crate) group_bytes: u64,
    /// The number of blocks to request from resize2fs, or `None` to let it use the whole device.
    pub(crate) blocks: Option<u64>,
    /// The limit that leaves more than one block group of the device unused.
    pub(crate) limit: Option<GrowthLimit>,
}

impl Reach {
    /// Returns the reach of any XFS, which grows to the end of its device.
    pub(crate) fn of_xfs(device: u64) -> Self {
        Self { bytes: device, least_growth: LEAST_XFS_GROUP, group_bytes: LEAST_XFS_GROUP, blocks: None, limit: None }
    }
}
