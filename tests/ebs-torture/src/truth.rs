//! The torture's knowledge of a disk, gained without calls to the driver.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use ebs_testkit::content::{self, Pattern};

#[derive(Debug, Clone)]
pub(crate) struct Kept {
    pub(crate) name: String,
    pub(crate) hash: String,
}

/// Bytes that were written to the device itself, and synced.
#[derive(Debug, Clone)]
pub(crate) struct Raw {
    pub(crate) offset: u64,
    pub(crate) length: usize,
    pub(crate) seed: u64,
}

impl Raw {
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.length];
        Pattern::new(self.seed).fill(&mut bytes);
        bytes
    }
}

/// What must be on the disk, and what may be.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    pub(crate) files: Vec<Kept>,
    /// Acknowledged bytes on the device, from a raw user or another program.
    pub(crate) raw: Vec<Raw>,
    /// Files that were written but not synced. They are safe once the volume is unstaged.
    pub(crate) unsynced: Vec<Kept>,
    /// Bytes that a raw user wrote to the device but did not sync. They are safe once the volume is unstaged.
    pub(crate) unflushed: Vec<Raw>,
    /// True if the device may have bytes that were not acknowledged, which are a correct reason for a rejection.
    pub(crate) maybe_raw: bool,
    /// True once the volume was staged, so that it has a file system.
    pub(crate) has_file_system: bool,
    /// True if a NodeStageVolume call failed or got no response: an mkfs may have been interrupted, or may still be
    /// running.
    pub(crate) unclear: bool,
    /// True if an mkfs may have been interrupted and its record was correctly removed afterwards.
    pub(crate) half: bool,
    /// True if a power cut may have interrupted an mkfs.
    pub(crate) half_by_cut: bool,
    /// True if an offline growth may have been interrupted.
    pub(crate) half_grown: bool,
    /// True if the last NodeStageVolume call returned a final error.
    pub(crate) refused: bool,
    pub(crate) named: usize,
}

impl Truth {
    /// Records that the record of an interrupted format, if there was one, is gone.
    pub(crate) fn record_forgotten(&mut self) {
        self.half |= self.unclear;
        self.unclear = false;
    }

    /// Records that the volume is unstaged and its disk never lost power, so all writes are safe. Returns the writes to
    /// the device that became safe only now.
    pub(crate) fn let_go(&mut self) -> Vec<Raw> {
        self.files.append(&mut self.unsynced);
        let flushed = std::mem::take(&mut self.unflushed);
        self.raw.extend_from_slice(&flushed);
        flushed
    }

    /// Records a power cut. An earlier record of a format is no longer valid, and bytes that were being written are
    /// either old or new.
    pub(crate) fn power_lost(&mut self) {
        self.half_by_cut |= !self.has_file_system && (self.unclear || self.half);
        self.unclear = false;
        self.refused = false;
        self.unsynced.clear();
        self.maybe_raw |= !self.unflushed.is_empty();
        self.unflushed.clear();
    }

    pub(crate) fn wiped(&mut self) {
        *self = Self { named: self.named, ..Self::default() };
    }
}

/// Returns the files below a mount of the volume that differ from the written data.
pub(crate) async fn missing_below(files: &[Kept], mount: PathBuf) -> Vec<String> {
    let files = files.to_vec();
    let look = move || {
        let wrong = |kept: &Kept| content::hash_file(&mount.join(&kept.name)).ok().as_ref() != Some(&kept.hash);
        files.into_iter().filter(wrong).map(|kept| kept.name).collect()
    };
    tokio::task::spawn_blocking(look).await.unwrap_or_else(|_| vec!["all".to_owned()])
}

/// Returns the offsets of raw bytes that differ from the written data.
pub(crate) async fn missing_on(raw: &[Raw], device: PathBuf) -> io::Result<Vec<u64>> {
    let raw = raw.to_vec();
    let look = move || {
        let opened = File::open(device)?;
        let mut missing = Vec::new();
        for raw in &raw {
            let mut bytes = vec![0; raw.length];
            opened.read_exact_at(&mut bytes, raw.offset)?;
            if bytes != raw.bytes() {
                missing.push(raw.offset);
            }
        }
        Ok(missing)
    };
    tokio::task::spawn_blocking(look).await.map_err(io::Error::other)?
}

/// Returns whether the device is free, that is, not mounted anywhere and not in use by mkfs.
pub(crate) fn is_free(device: &Path) -> io::Result<bool> {
    const O_EXCL: i32 = 0o200;
    match File::options().read(true).custom_flags(O_EXCL).open(device) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns whether the device may have a file system, complete or partial.
pub(crate) fn has_magic(device: &Path) -> io::Result<bool> {
    let opened = File::open(device)?;
    let (mut xfs, mut ext) = ([0; 4], [0; 2]);
    opened.read_exact_at(&mut xfs, 0)?;
    opened.read_exact_at(&mut ext, 1024 + 0x38)?;
    Ok(xfs == *b"XFSB" || ext == [0x53, 0xef])
}
