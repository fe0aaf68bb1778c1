//! The options of a new file system, on every operating system. Systems without mkfs parse them only to reject them.

/// A number as mkfs accepts it: ASCII letters and digits (`4096`, `64k`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SizeWord(String);

/// A text that is not a number for mkfs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} contains characters other than letters and digits")]
pub struct SizeWordError(String);

impl SizeWord {
    /// Parses ASCII letters and digits. Returns `None` (no argument) for the empty text.
    pub fn parse(text: &str) -> Result<Option<Self>, SizeWordError> {
        if !text.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
            return Err(SizeWordError(text.to_owned()));
        }
        Ok((!text.is_empty()).then(|| Self(text.to_owned())))
    }

    /// Returns the text as the user gave it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The options of a StorageClass for a new file system.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FormatOptions {
    pub block_size: Option<SizeWord>,
    pub inode_size: Option<SizeWord>,
    pub bytes_per_inode: Option<SizeWord>,
    pub number_of_inodes: Option<SizeWord>,
    pub bigalloc: bool,
    pub cluster_size: Option<SizeWord>,
    pub encryption: bool,
    /// xfs: omit features that kernels before 5.10 cannot mount.
    pub legacy_xfs: bool,
}
