//! The file system types of volumes.

use std::fmt;

/// A file system that this driver formats, mounts and grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FsType {
    /// The second extended file system of old volumes. The kernel's ext4 driver mounts it.
    Ext2,
    Ext3,
    Ext4,
    Xfs,
}

/// A file system type that this driver does not support on Linux.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("file system type {0:?} is not supported on Linux; use ext4, ext3, ext2 or xfs")]
pub struct UnknownFsType(pub String);

impl FsType {
    /// Parses a name in any case. The empty name means ext4.
    pub fn parse(name: &str) -> Result<Self, UnknownFsType> {
        match name.to_ascii_lowercase().as_str() {
            "" | "ext4" => Ok(Self::Ext4),
            "ext3" => Ok(Self::Ext3),
            "ext2" => Ok(Self::Ext2),
            "xfs" => Ok(Self::Xfs),
            _ => Err(UnknownFsType(name.to_owned())),
        }
    }

    /// Returns the name that mount(8) and `fsType` use.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Ext2 => "ext2",
            Self::Ext3 => "ext3",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// True for ext2, ext3 and ext4, which one kernel driver mounts.
    pub fn is_ext(self) -> bool {
        self != Self::Xfs
    }

    /// True if a volume that was requested as `self` may be mounted under this name in the mount table.
    pub fn accepts_name(self, found: &str) -> bool {
        Self::parse(found).is_ok_and(|found| self.accepts(found))
    }

    /// True if a volume that was requested as `self` may be mounted as `found`: the same type, or both ext.
    pub fn accepts(self, found: Self) -> bool {
        self == found || (self.is_ext() && found.is_ext())
    }
}

impl fmt::Display for FsType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fs_type_is_parsed_in_any_case_and_ntfs_is_rejected() {
        assert_eq!(FsType::parse("XFS"), Ok(FsType::Xfs));
        assert_eq!(FsType::parse(""), Ok(FsType::Ext4));
        assert_eq!(FsType::parse("ext2"), Ok(FsType::Ext2));
        for bad in ["ntfs", "btrfs", "ext4 ", "ext5"] {
            assert_eq!(FsType::parse(bad), Err(UnknownFsType(bad.to_owned())));
        }
    }

    #[test]
    fn ext_types_accept_each_other_and_xfs_only_itself() {
        assert!(FsType::Ext4.accepts(FsType::Ext2) && FsType::Ext2.accepts(FsType::Ext4));
        assert!(!FsType::Ext4.accepts(FsType::Xfs) && !FsType::Xfs.accepts(FsType::Ext3));
    }
}
