//! Damage to an ext3 or ext4 file system that is not mounted: exactly what the kernel would find, with right checksums everywhere else.
//!
//! Layouts: Linux, Documentation/filesystems/ext4 (super.rst, group_descr.rst, journal.rst).

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the primary superblock is.
const SUPERBLOCK: u64 = 1024;
const SUPERBLOCK_BYTES: usize = 1024;
const MAGIC: u16 = 0xef53;
const RECOVER: u32 = 0x4;
const INCOMPAT_64BIT: u32 = 0x80;
const METADATA_CHECKSUM: u32 = 0x400;
const STATE_VALID: u16 = 0x1;
const STATE_ERRORS: u16 = 0x2;
/// The copy of the journal inode's blocks in the superblock is one of `i_block`.
const JOURNAL_BLOCKS_BACKED_UP: u8 = 1;
const EXTENT_MAGIC: u16 = 0xf30a;
const JOURNAL_MAGIC: u32 = 0xc03b_3998;
const JOURNAL_SUPERBLOCK_BYTES: usize = 1024;
/// The journal's checksums, versions 2 and 3.
const JOURNAL_CHECKSUMS: u32 = 0x8 | 0x10;
/// Castagnoli's polynomial, reversed.
const CASTAGNOLI: u32 = 0x82f6_3b78;

/// The primary superblock of an ext file system.
#[derive(Debug, Clone)]
pub struct ExtImage {
    superblock: Vec<u8>,
}

impl ExtImage {
    /// Reads it from a device or file; `None` when no ext file system is there.
    ///
    /// # Errors
    /// Those of the device.
    pub fn read(device: &Path) -> io::Result<Option<Self>> {
        let mut superblock = vec![0; SUPERBLOCK_BYTES];
        File::open(device)?.read_exact_at(&mut superblock, SUPERBLOCK)?;
        let image = Self { superblock };
        Ok((image.le16(0x38) == MAGIC).then_some(image))
    }

    /// True when the kernel has recorded errors that no check has removed.
    pub fn has_errors(&self) -> bool {
        self.le16(0x3a) & STATE_ERRORS != 0
    }

    /// True when it was unmounted in order, and no check of it is due.
    pub fn is_clean(&self) -> bool {
        self.le16(0x3a) == STATE_VALID && self.le32(0x60) & RECOVER == 0
    }

    /// True when its metadata have checksums.
    pub fn has_checksums(&self) -> bool {
        self.le32(0x64) & METADATA_CHECKSUM != 0
    }

    /// Bytes of the file system.
    pub fn bytes(&self) -> u64 {
        let high = if self.le32(0x60) & INCOMPAT_64BIT != 0 { self.le32(0x150) } else { 0 };
        (u64::from(high) << 32 | u64::from(self.le32(0x4))) * self.block_bytes()
    }

    fn block_bytes(&self) -> u64 {
        1024 << self.le32(0x18).min(6)
    }

    /// Writes an error number into the journal's superblock, as jbd2 does when it ends a journal, and leaves the file system's own
    /// superblock as it is.
    ///
    /// # Errors
    /// Those of the device, and when the journal is not where it is looked for.
    pub fn record_journal_error(&self, device: &Path, error: u32) -> io::Result<()> {
        let at = self.journal_block()? * self.block_bytes();
        let file = File::options().read(true).write(true).open(device)?;
        let mut journal = vec![0; JOURNAL_SUPERBLOCK_BYTES];
        file.read_exact_at(&mut journal, at)?;
        if be32(&journal, 0) != JOURNAL_MAGIC {
            return Err(io::Error::other("no journal where the superblock shows it"));
        }
        journal[0x20..0x24].copy_from_slice(&error.wrapping_neg().to_be_bytes());
        if be32(&journal, 0x28) & JOURNAL_CHECKSUMS != 0 {
            journal[0xfc..0x100].fill(0);
            let checksum = crc32c(&journal);
            journal[0xfc..0x100].copy_from_slice(&checksum.to_be_bytes());
        }
        file.write_all_at(&journal, at)?;
        file.sync_all()
    }

    /// The error number in the journal's superblock; 0: none.
    ///
    /// # Errors
    /// As [`ExtImage::record_journal_error`].
    pub fn journal_error(&self, device: &Path) -> io::Result<u32> {
        let mut number = [0; 4];
        File::open(device)?.read_exact_at(&mut number, self.journal_block()? * self.block_bytes() + 0x20)?;
        Ok(u32::from_be_bytes(number).wrapping_neg())
    }

    /// Changes one bit of the checksum of the first group's descriptor: the kernel refuses to mount that for writing.
    ///
    /// # Errors
    /// Those of the device, and when the file system has no such checksums.
    pub fn damage_descriptor(&self, device: &Path) -> io::Result<()> {
        if !self.has_checksums() {
            return Err(io::Error::other("the file system has no checksums of its group descriptors"));
        }
        let at = (u64::from(self.le32(0x14)) + 1) * self.block_bytes() + 0x1e;
        let file = File::options().read(true).write(true).open(device)?;
        let mut byte = [0];
        file.read_exact_at(&mut byte, at)?;
        file.write_all_at(&[byte[0] ^ 1], at)?;
        file.sync_all()
    }

    /// The first block of the journal, by the copy of its inode's blocks in the superblock.
    fn journal_block(&self) -> io::Result<u64> {
        if self.superblock[0xfd] != JOURNAL_BLOCKS_BACKED_UP {
            return Err(io::Error::other("the superblock has no copy of the journal's blocks"));
        }
        let block = match (self.le16(0x10c), self.le16(0x10c + 6)) {
            (EXTENT_MAGIC, 0) => u64::from(self.le16(0x10c + 12 + 6)) << 32 | u64::from(self.le32(0x10c + 12 + 8)),
            (EXTENT_MAGIC, _) => return Err(io::Error::other("the journal has more extents than its inode holds")),
            _ => u64::from(self.le32(0x10c)),
        };
        Ok(block)
    }

    fn le16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.superblock[at], self.superblock[at + 1]])
    }

    fn le32(&self, at: usize) -> u32 {
        u32::from(self.le16(at)) | u32::from(self.le16(at + 2)) << 16
    }
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// As ext4 and jbd2 use it: from all ones, without an inversion at the end.
fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ CASTAGNOLI } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

    use super::*;
    use crate::loop_device::{LoopDevice, unused_volume_id};
    use crate::mount_namespace::in_mount_namespace;
    use crate::process::tool;

    const BOUND: Duration = Duration::from_secs(60);

    fn image(disk: &LoopDevice) -> ExtImage {
        ExtImage::read(disk.path()).unwrap().expect("an ext file system")
    }

    /// A disk with a file system that was mounted once: only then its journal has checksums.
    async fn disk(fs_type: &str) -> LoopDevice {
        let disk = LoopDevice::new(&unused_volume_id(), 32 << 20).unwrap();
        assert!(ExtImage::read(disk.path()).unwrap().is_none());
        tool(&format!("/usr/sbin/mkfs.{fs_type}"), &["-q", &disk.path().to_string_lossy()], BOUND).await.unwrap();
        mount_once(&disk, fs_type).unwrap();
        assert!(image(&disk).is_clean());
        disk
    }

    fn mount_once(disk: &LoopDevice, fs_type: &str) -> rustix::io::Result<()> {
        let at = disk.directory().join("mnt");
        std::fs::create_dir_all(&at).unwrap();
        mount(disk.path(), &at, fs_type, MountFlags::empty(), None)?;
        unmount(&at, UnmountFlags::empty())
    }

    /// Runs `e2fsck -p`, which must get along alone: its exit code is 0 or 1.
    async fn repair(disk: &LoopDevice) {
        match tool("/usr/sbin/e2fsck", &["-p", &disk.path().to_string_lossy()], BOUND).await {
            Ok(output) => assert!(output.contains("FIXED") || output.contains("check forced"), "{output}"),
            Err(error) => assert!(error.to_string().contains("exit status: 1:"), "{error}"),
        }
    }

    #[test]
    fn the_kernel_mounts_a_journal_with_an_error_and_e2fsck_repairs_it() {
        in_mount_namespace(|| async {
            for fs_type in ["ext3", "ext4"] {
                let disk = disk(fs_type).await;
                image(&disk).record_journal_error(disk.path(), 5).unwrap();
                assert!(image(&disk).is_clean(), "{fs_type}: only the journal shows it");
                assert_eq!(image(&disk).journal_error(disk.path()).unwrap(), 5);
                mount_once(&disk, fs_type).unwrap();
                assert!(image(&disk).has_errors(), "{fs_type}: the kernel has found it");
                repair(&disk).await;
                assert!(image(&disk).is_clean(), "{fs_type}");
            }
        });
    }

    #[test]
    fn the_kernel_refuses_a_damaged_descriptor_and_e2fsck_repairs_it() {
        in_mount_namespace(|| async {
            let disk = disk("ext4").await;
            image(&disk).damage_descriptor(disk.path()).unwrap();
            assert!(image(&disk).is_clean());
            mount_once(&disk, "ext4").unwrap_err();
            repair(&disk).await;
            mount_once(&disk, "ext4").unwrap();
        });
    }
}
