//! The disk usage of a volume.

use std::io;
use std::path::Path;

use rustix::fs::StatFs;

use crate::bounded;
use crate::os::{self, DeviceNumber};

/// The result of statfs(2): blocks of `block_size` bytes, and inodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    pub block_size: u64,
    pub blocks: u64,
    pub blocks_free: u64,
    /// Number of free blocks for users without privileges.
    pub blocks_available: u64,
    /// Total number of inodes; 0 if the file system has no fixed number.
    pub inodes: u64,
    pub inodes_free: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub total: i64,
    pub used: i64,
    /// Amount that is available to users without privileges.
    pub available: i64,
}

/// Numbers that contradict each other or do not fit into CSI's fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file system reports {counts:?}: {what}")]
pub struct Implausible {
    counts: Counts,
    what: &'static str,
}

impl Counts {
    pub async fn read(path: &Path) -> io::Result<Self> {
        let at = path.to_owned();
        bounded::reading("reading the usage of", path, move || Self::of(os::statfs(&at)?)).await
    }

    /// Reads like [`Counts::read`], but only from this device: the mount at the path may change at any time.
    pub async fn read_of(path: &Path, device: DeviceNumber) -> io::Result<Self> {
        let at = path.to_owned();
        bounded::reading("reading the usage of", path, move || Self::of(os::statfs_of(&at, device)?)).await
    }

    fn of(numbers: StatFs) -> io::Result<Self> {
        Ok(Self {
            block_size: u64::try_from(numbers.f_bsize).map_err(io::Error::other)?,
            blocks: numbers.f_blocks,
            blocks_free: numbers.f_bfree,
            blocks_available: numbers.f_bavail,
            inodes: numbers.f_files,
            inodes_free: numbers.f_ffree,
        })
    }

    /// Returns the usage in bytes, or [`Implausible`] if the block size is 0 or a product overflows.
    pub fn bytes(&self) -> Result<Usage, Implausible> {
        if self.block_size == 0 {
            return Err(self.implausible("a block size of 0"));
        }
        let bytes = |blocks: u64| {
            let product = blocks.checked_mul(self.block_size).and_then(|bytes| i64::try_from(bytes).ok());
            product.ok_or_else(|| self.implausible("more than 2^63 - 1 bytes"))
        };
        Ok(Usage {
            total: bytes(self.blocks)?,
            used: bytes(self.blocks.saturating_sub(self.blocks_free))?,
            available: bytes(self.blocks_available)?,
        })
    }

    /// Returns the usage of inodes, or `None` if the file system does not count them.
    pub fn inodes(&self) -> Result<Option<Usage>, Implausible> {
        if self.inodes == 0 {
            return Ok(None);
        }
        let used = self.inodes.checked_sub(self.inodes_free);
        let used = used.ok_or_else(|| self.implausible("more free inodes than inodes"))?;
        let wire = |count: u64| i64::try_from(count).map_err(|_| self.implausible("more than 2^63 - 1 inodes"));
        Ok(Some(Usage { total: wire(self.inodes)?, used: wire(used)?, available: wire(self.inodes_free)? }))
    }

    fn implausible(&self, what: &'static str) -> Implausible {
        Implausible { counts: *self, what }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTS: Counts =
        Counts { block_size: 4096, blocks: 100, blocks_free: 40, blocks_available: 30, inodes: 10, inodes_free: 4 };

    #[tokio::test]
    async fn usage_is_not_read_from_another_file_system() {
        use std::os::unix::fs::MetadataExt;
        let place = tempfile::tempdir().unwrap();
        let here = DeviceNumber::of(place.path().metadata().unwrap().dev());
        let counts = Counts::read_of(place.path(), here).await.unwrap();
        assert!(counts.block_size > 0 && counts.blocks > 0, "{counts:?}");
        let other = DeviceNumber { minor: here.minor + 1, ..here };
        assert_eq!(Counts::read_of(place.path(), other).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn usage_is_blocks_times_block_size() {
        assert_eq!(COUNTS.bytes(), Ok(Usage { total: 409_600, used: 245_760, available: 122_880 }));
        assert_eq!(COUNTS.inodes(), Ok(Some(Usage { total: 10, used: 6, available: 4 })));
    }

    #[test]
    fn impossible_usage_counts_are_rejected_instead_of_wrapped() {
        assert!(Counts { block_size: 0, ..COUNTS }.bytes().is_err());
        assert!(Counts { blocks: u64::MAX, ..COUNTS }.bytes().is_err());
        assert!(Counts { block_size: 1, blocks: 1 << 63, ..COUNTS }.bytes().is_err());
        assert!(Counts { inodes_free: 11, ..COUNTS }.inodes().is_err());
        // Excess free blocks and missing inodes are tolerated.
        assert_eq!(Counts { blocks_free: 101, ..COUNTS }.bytes().unwrap().used, 0);
        assert_eq!(Counts { inodes: 0, ..COUNTS }.inodes(), Ok(None));
    }
}
