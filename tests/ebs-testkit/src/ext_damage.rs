//! Damages ext file systems on a block device, for tests of repairs. The file system must not be mounted.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};

use crate::process::run_tool;

const DEBUGFS: &str = "/usr/sbin/debugfs";
const BOUND: Duration = Duration::from_secs(60);

const SUPERBLOCK: u64 = 1024;
/// The magic number of the journal's superblock, in its on-disk byte order.
const JOURNAL_MAGIC: [u8; 4] = [0xc0, 0x3b, 0x39, 0x98];

/// Damage that makes the kernel refuse to mount the file system although its superblock is marked clean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The checksum of the first group descriptor is wrong. `e2fsck -p` corrects it.
    GroupChecksum,
    /// The checksum of the journal's superblock is wrong. `e2fsck -p` corrects it.
    JournalChecksum,
    /// The checksum of the root directory's inode is wrong. Only a full check finds and corrects it.
    RootChecksum,
    /// The root directory is a regular file. No automatic repair corrects this; `e2fsck -y` makes another root
    /// directory.
    RootIsAFile,
}

impl Damage {
    pub fn inflict(self, disk: impl AsRef<Path>) -> anyhow::Result<()> {
        let disk = disk.as_ref();
        match self {
            Self::GroupChecksum => flip_bit(disk, (first_data_block(disk)? + 1) * block_size(disk)? + 0x1e),
            Self::JournalChecksum => flip_bit(disk, journal(disk)? + 0xfc),
            Self::RootChecksum => flip_bit(disk, root_inode(disk)? + 0x7c),
            Self::RootIsAFile => debugfs(disk, "set_inode_field <2> mode 0100644").map(drop),
        }
    }
}

/// Returns the state field of the superblock: bit 0 is set while the file system is clean, bit 1 after errors.
pub fn state(disk: impl AsRef<Path>) -> anyhow::Result<u16> {
    let bytes = read(disk.as_ref(), 2, SUPERBLOCK + 0x3a)?;
    Ok(u16::from_le_bytes([bytes[0], bytes[1]]))
}

/// Returns whether the superblock is marked clean and the journal has nothing to replay.
pub fn is_clean(disk: impl AsRef<Path>) -> anyhow::Result<bool> {
    let must_recover = read(disk.as_ref(), 1, SUPERBLOCK + 0x60)?[0] & 0x4 != 0;
    Ok(state(disk)? == 1 && !must_recover)
}

/// Sets the state field of the superblock to "errors detected".
pub fn set_error_state(disk: impl AsRef<Path>) -> anyhow::Result<()> {
    debugfs(disk, "set_super_value state 3").map(drop)
}

/// Records an I/O error in the journal's superblock, as the kernel does when it aborts the journal. The superblock of
/// the file system stays marked clean.
pub fn record_journal_error(disk: impl AsRef<Path>) -> anyhow::Result<()> {
    let disk = disk.as_ref();
    let at = journal(disk)?;
    let mut bytes = read(disk, 1024, at)?;
    bytes[0x20..0x24].copy_from_slice(&(-5_i32).to_be_bytes());
    bytes[0xfc..0x100].fill(0);
    let checksum = crc32c(&bytes).to_be_bytes();
    bytes[0xfc..0x100].copy_from_slice(&checksum);
    Ok(write(disk, &bytes, at)?)
}

/// Removes the copy of the journal's block list from the superblock. The journal's inode keeps the list.
pub fn forget_journal_blocks(disk: impl AsRef<Path>) -> anyhow::Result<()> {
    debugfs(disk, "set_super_value jnl_backup_type 0").map(drop)
}

/// Runs one debugfs request, with write access.
pub fn debugfs(disk: impl AsRef<Path>, request: &str) -> anyhow::Result<String> {
    let path = disk.as_ref().to_str().context("a device name that is text")?;
    let output = run_tool(DEBUGFS, &["-w", "-R", request, path], BOUND)?;
    ensure!(!output.contains("Unknown request") && !output.contains("invalid"), "debugfs {request}: {output}");
    Ok(output)
}

fn read(disk: &Path, length: usize, at: u64) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; length];
    File::open(disk)?.read_exact_at(&mut bytes, at)?;
    Ok(bytes)
}

fn write(disk: &Path, bytes: &[u8], at: u64) -> io::Result<()> {
    let device = File::options().write(true).open(disk)?;
    device.write_all_at(bytes, at)?;
    device.sync_all()
}

fn flip_bit(disk: &Path, at: u64) -> anyhow::Result<()> {
    let byte = read(disk, 1, at)?[0] ^ 1;
    Ok(write(disk, &[byte], at)?)
}

fn block_size(disk: &Path) -> anyhow::Result<u64> {
    let bytes = read(disk, 4, SUPERBLOCK + 0x18)?;
    Ok(1024 << bytes[0])
}

fn first_data_block(disk: &Path) -> anyhow::Result<u64> {
    Ok(u64::from(read(disk, 1, SUPERBLOCK + 0x14)?[0]))
}

/// Returns the offset of the journal's superblock in bytes.
fn journal(disk: &Path) -> anyhow::Result<u64> {
    let output = debugfs(disk, "blocks <8>")?;
    let block = output.split_whitespace().find_map(|word| word.parse::<u64>().ok());
    let at = block.with_context(|| format!("no block of the journal in {output:?}"))? * block_size(disk)?;
    ensure!(read(disk, 4, at)? == JOURNAL_MAGIC, "no journal at byte {at}");
    Ok(at)
}

/// Returns the offset of the root directory's inode in bytes.
fn root_inode(disk: &Path) -> anyhow::Result<u64> {
    let output = debugfs(disk, "imap <2>")?;
    let after = |word: &str| {
        let text = output.split_once(word)?.1.split([',', '\n', ' ']).next()?;
        match text.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        }
    };
    let (block, offset) = after("located at block ").zip(after("offset ")).context(output.clone())?;
    Ok(block * block_size(disk)? + offset)
}

/// Returns the CRC-32C without the final inversion, as ext4 uses it.
fn crc32c(bytes: &[u8]) -> u32 {
    bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 })
    })
}
