use std::fmt;

use ebs_mounter::{FormatOptions, FsType, SizeWord};

const EXT: &[FsType] = &[FsType::Ext2, FsType::Ext3, FsType::Ext4];
const EXT_AND_XFS: &[FsType] = &[FsType::Ext2, FsType::Ext3, FsType::Ext4, FsType::Xfs];
const EXT4: &[FsType] = &[FsType::Ext4];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FormatKey {
    /// The size of a block in bytes.
    BlockSize,
    /// The size of an inode in bytes.
    InodeSize,
    BytesPerInode,
    NumberOfInodes,
    Bigalloc,
    /// The size of a cluster in bytes.
    ClusterSize,
    Encryption,
}

impl FormatKey {
    /// All options, in the order in which they are checked.
    pub const ALL: [Self; 7] = [
        Self::BlockSize,
        Self::InodeSize,
        Self::BytesPerInode,
        Self::NumberOfInodes,
        Self::Bigalloc,
        Self::ClusterSize,
        Self::Encryption,
    ];

    /// Returns the key in lower case, as the reference driver writes it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::BlockSize => "blocksize",
            Self::InodeSize => "inodesize",
            Self::BytesPerInode => "bytesperinode",
            Self::NumberOfInodes => "numberofinodes",
            Self::Bigalloc => "ext4bigalloc",
            Self::ClusterSize => "ext4clustersize",
            Self::Encryption => "ext4encryptionsupport",
        }
    }

    pub fn file_systems(self) -> &'static [FsType] {
        match self {
            Self::BlockSize | Self::InodeSize => EXT_AND_XFS,
            Self::BytesPerInode | Self::NumberOfInodes => EXT,
            Self::Bigalloc | Self::ClusterSize | Self::Encryption => EXT4,
        }
    }

    /// Returns the value for a volume context, or `None` when the option is not set.
    pub(crate) fn value(self, options: &FormatOptions) -> Option<&str> {
        let flag = |set: bool| set.then_some("true");
        match self {
            Self::BlockSize => options.block_size.as_ref().map(SizeWord::as_str),
            Self::InodeSize => options.inode_size.as_ref().map(SizeWord::as_str),
            Self::BytesPerInode => options.bytes_per_inode.as_ref().map(SizeWord::as_str),
            Self::NumberOfInodes => options.number_of_inodes.as_ref().map(SizeWord::as_str),
            Self::Bigalloc => flag(options.bigalloc),
            Self::ClusterSize => options.cluster_size.as_ref().map(SizeWord::as_str),
            Self::Encryption => flag(options.encryption),
        }
    }

    pub fn is_set(self, options: &FormatOptions) -> bool {
        self.value(options).is_some()
    }
}

impl fmt::Display for FormatKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
