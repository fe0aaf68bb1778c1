//! What is known of the disk without asking the driver.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use ebs_testkit::content::{self, Pattern};

/// A file that was written and synced.
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

/// What must hold, and what may.
#[derive(Debug, Default)]
pub(crate) struct Truth {
    /// Acknowledged files in the file system.
    pub(crate) files: Vec<Kept>,
    /// Acknowledged bytes on the device, of a raw user or of somebody else.
    pub(crate) raw: Vec<Raw>,
    /// The volume was staged once: it has a file system.
    pub(crate) has_file_system: bool,
    /// A stage ended without an answer: an mkfs may have been broken off, or may still run.
    pub(crate) unclear: bool,
    /// An mkfs may have been broken off whose record was rightly forgotten since (by unstage, by a raw publish, by an mkfs that
    /// failed by itself): that the volume is refused for half a file system is right then.
    pub(crate) half: bool,
    /// The last stage was refused by an answer.
    pub(crate) refused: bool,
}

impl Truth {
    /// The record of an interrupted format, if there was one, is gone.
    pub(crate) fn record_forgotten(&mut self) {
        self.half |= self.unclear;
        self.unclear = false;
    }

    /// Files that are not as they were written, below a mount of the volume.
    pub(crate) fn missing_below(&self, mount: &Path) -> Vec<String> {
        let wrong = |kept: &&Kept| content::hash_file(&mount.join(&kept.name)).ok().as_ref() != Some(&kept.hash);
        self.files.iter().filter(wrong).map(|kept| kept.name.clone()).collect()
    }

    /// Raw bytes that are not as they were written.
    pub(crate) fn missing_on(&self, device: &Path) -> io::Result<Vec<u64>> {
        let opened = File::open(device)?;
        let mut missing = Vec::new();
        for raw in &self.raw {
            let mut bytes = vec![0; raw.length];
            opened.read_exact_at(&mut bytes, raw.offset)?;
            if bytes != raw.bytes() {
                missing.push(raw.offset);
            }
        }
        Ok(missing)
    }
}

/// True when nobody holds the device: no mount anywhere, no mkfs.
pub(crate) fn is_free(device: &Path) -> io::Result<bool> {
    const O_EXCL: i32 = 0o200;
    match File::options().read(true).custom_flags(O_EXCL).open(device) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => Ok(false),
        Err(error) => Err(error),
    }
}

/// True when a file system may be on the device, whole or half made.
pub(crate) fn has_magic(device: &Path) -> io::Result<bool> {
    let opened = File::open(device)?;
    let (mut xfs, mut ext) = ([0; 4], [0; 2]);
    opened.read_exact_at(&mut xfs, 0)?;
    opened.read_exact_at(&mut ext, 1024 + 0x38)?;
    Ok(xfs == *b"XFSB" || ext == [0x53, 0xef])
}
