//! The options of a new file system, on every operating system. Systems without mkfs parse them to reject them.

/// A number in the syntax of mkfs: letters and digits (`4096`, `64k`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeWord(String);

/// A text that is not a number for mkfs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} contains characters other than letters and digits")]
pub struct SizeWordError(String);

impl SizeWord {
    /// Parses ASCII letters and digits. Returns `None`, no argument, for the empty text.
    pub fn parse(text: &str) -> Result<Option<Self>, SizeWordError> {
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(SizeWordError(text.to_owned()));
        }
        Ok((!text.is_empty()).then(|| Self(text.to_owned())))
    }

    /// Returns the text as it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The options of a StorageClass for a new file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FormatOptions {
    /// Bytes per block.
    pub block_size: Option<SizeWord>,
    /// Bytes per inode.
    pub inode_size: Option<SizeWord>,
    /// ext: bytes per inode ratio.
    pub bytes_per_inode: Option<SizeWord>,
    /// ext: number of inodes.
    pub number_of_inodes: Option<SizeWord>,
    /// ext4: allocate clusters of blocks.
    pub bigalloc: bool,
    /// ext4: bytes per cluster.
    pub cluster_size: Option<SizeWord>,
    /// ext4: support encryption.
    pub encryption: bool,
    /// xfs: leave out features that kernels before 5.10 cannot mount.
    pub legacy_xfs: bool,
}
