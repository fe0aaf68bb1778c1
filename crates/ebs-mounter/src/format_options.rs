//! What may be said about a file system to be made, on any system: where mkfs does not run, such options are read to be refused.

/// A number as mkfs takes it: letters and digits (`4096`, `64k`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeWord(String);

/// A text that is no number for mkfs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} has characters other than letters and digits")]
pub struct SizeWordError(String);

impl SizeWord {
    /// Accepts ASCII letters and digits; the empty text is `None`, no argument.
    ///
    /// # Errors
    /// [`SizeWordError`].
    pub fn parse(text: &str) -> Result<Option<Self>, SizeWordError> {
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(SizeWordError(text.to_owned()));
        }
        Ok((!text.is_empty()).then(|| Self(text.to_owned())))
    }

    /// As it was given.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// What a StorageClass may say about the file system to be made.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FormatOptions {
    /// Bytes of a block.
    pub block_size: Option<SizeWord>,
    /// Bytes of an inode.
    pub inode_size: Option<SizeWord>,
    /// ext: one inode for so many bytes.
    pub bytes_per_inode: Option<SizeWord>,
    /// ext: so many inodes.
    pub number_of_inodes: Option<SizeWord>,
    /// ext4: allocate clusters of blocks.
    pub bigalloc: bool,
    /// ext4: bytes of a cluster.
    pub cluster_size: Option<SizeWord>,
    /// ext4: support encryption.
    pub encryption: bool,
    /// xfs: leave out what kernels before 5.10 cannot mount.
    pub legacy_xfs: bool,
}
