//! How full a volume is.

use std::io;
use std::path::Path;

use crate::bounded;
use crate::device_number::DeviceNumber;
use crate::os;

/// The numbers of statfs(2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Bytes of one block.
    pub block_size: u64,
    /// Blocks in all.
    pub blocks: u64,
    /// Blocks that hold nothing.
    pub blocks_free: u64,
    /// Blocks that a user without privileges may still fill.
    pub blocks_available: u64,
    /// Inodes in all; 0 where the file system has no fixed number.
    pub inodes: u64,
    /// Inodes that are not used.
    pub inodes_free: u64,
}

/// One kind of thing, counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Usage {
    pub total: i64,
    pub used: i64,
    /// Left for users.
    pub available: i64,
}

/// Numbers that contradict each other or that CSI cannot carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the file system reports {counts:?}, which is {what}")]
pub struct Implausible {
    counts: Counts,
    what: &'static str,
}

impl Counts {
    /// The file system at a path.
    ///
    /// # Errors
    /// What statfs(2) says, or that it hangs.
    pub async fn read(path: &Path) -> io::Result<Self> {
        let at = path.to_owned();
        bounded::reading("statfs", path, move || os::statfs(&at)).await
    }

    /// The file system of this device at a path, and of no other: what is mounted there may change at any time.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when another file system is there; what statfs(2) says, or that it hangs.
    pub async fn read_of(path: &Path, device: DeviceNumber) -> io::Result<Self> {
        let at = path.to_owned();
        bounded::reading("statfs", path, move || os::statfs_of(&at, device)).await
    }

    /// Bytes.
    ///
    /// # Errors
    /// [`Implausible`] on a block size of 0 and on products that do not fit.
    pub fn bytes(&self) -> Result<Usage, Implausible> {
        if self.block_size == 0 {
            return Err(self.implausible("a block size of 0"));
        }
        let bytes = |blocks: u64| {
            let product = blocks.checked_mul(self.block_size).and_then(|bytes| i64::try_from(bytes).ok());
            product.ok_or_else(|| self.implausible("more bytes than can be counted"))
        };
        Ok(Usage {
            total: bytes(self.blocks)?,
            used: bytes(self.blocks.saturating_sub(self.blocks_free))?,
            available: bytes(self.blocks_available)?,
        })
    }

    /// Inodes; `None` where the file system does not count them.
    ///
    /// # Errors
    /// [`Implausible`] when more are free than exist.
    pub fn inodes(&self) -> Result<Option<Usage>, Implausible> {
        if self.inodes == 0 {
            return Ok(None);
        }
        let used = self
            .inodes
            .checked_sub(self.inodes_free)
            .ok_or_else(|| self.implausible("more inodes free than there are"))?;
        let wire = |count: u64| i64::try_from(count).map_err(|_| self.implausible("more inodes than can be counted"));
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
    async fn a_path_where_another_file_system_is_has_no_counts() {
        use std::os::unix::fs::MetadataExt;
        let place = tempfile::tempdir().unwrap();
        let here = DeviceNumber::of(place.path().metadata().unwrap().dev());
        let counts = Counts::read_of(place.path(), here).await.unwrap();
        assert!(counts.block_size > 0 && counts.blocks > 0, "{counts:?}");
        let other = DeviceNumber { minor: here.minor + 1, ..here };
        assert_eq!(Counts::read_of(place.path(), other).await.unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn usage_is_blocks_times_their_size() {
        assert_eq!(COUNTS.bytes(), Ok(Usage { total: 409_600, used: 245_760, available: 122_880 }));
        assert_eq!(COUNTS.inodes(), Ok(Some(Usage { total: 10, used: 6, available: 4 })));
    }

    /// Numbers of statfs that cannot be are refused, not wrapped.
    #[test]
    fn numbers_that_cannot_be_are_refused_not_wrapped() {
        assert!(Counts { block_size: 0, ..COUNTS }.bytes().is_err());
        assert!(Counts { blocks: u64::MAX, ..COUNTS }.bytes().is_err());
        assert!(Counts { block_size: 1, blocks: 1 << 63, ..COUNTS }.bytes().is_err());
        assert!(Counts { inodes_free: 11, ..COUNTS }.inodes().is_err());
    }

    #[test]
    fn more_free_than_total_blocks_is_nothing_used_and_no_inodes_is_no_entry() {
        assert_eq!(Counts { blocks_free: 101, ..COUNTS }.bytes().unwrap().used, 0);
        assert_eq!(Counts { inodes: 0, ..COUNTS }.inodes(), Ok(None));
    }
}
