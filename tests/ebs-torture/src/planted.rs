//! Bugs that the torture test plants outside of the service, in its files or in its responses, to prove that the test
//! finds them. The service itself is unchanged.

use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use ebs_ec2::VolumeId;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "PascalCase")]
pub enum Planted {
    /// A format record survives a failed call, so the next call may format the disk.
    RecordOutlivesRefusal,
    /// The record of a format survives a raw publish. A later format then overwrites the data of the raw device.
    RecordOutlivesRawPublish,
    /// A mount stays after the volume is unstaged.
    MountStaysBehind,
    /// The record of a format is not durable when the service or its mkfs is killed.
    RecordNotKept,
    /// NodeUnstageVolume reports success although the volume is still mounted or bound elsewhere.
    UnstageIgnoresUses,
    /// mkfs gets its force flag although no mkfs of this volume was ever interrupted.
    ForceWithoutRecord,
    /// NodeStageVolume returns an error if the file system cannot grow, and the volume stays mounted.
    GrowthDecidesAccess,
    /// A file system that a backup froze is still frozen when the volume is staged again.
    FrozenStaysFrozen,
    /// An unused copy of a mount in another mount namespace keeps the volume on its node, like a copy in use.
    CopyHoldsVolume,
    /// NodeUnstageVolume does not flush a pod's writes to a raw device.
    FlushLeftOut,
    /// e2fsck repairs nothing, and reports that no repair was necessary.
    JournalErrorIgnored,
    /// A file system that the kernel has made read-only is published to a pod that requests write access.
    ReadOnlyPublished,
}

pub(crate) fn records(state: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(state).into_iter().flatten().flatten();
    let is_record = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("format-");
    entries.filter(is_record).map(|entry| entry.path()).collect()
}

pub(crate) fn record_of(state: &Path, volume: &VolumeId) -> PathBuf {
    state.join(format!("format-{volume}"))
}

/// Keeps a copy of the service's record of a format, so that a planted bug can restore it after the service has
/// correctly removed it.
#[derive(Debug, Default)]
pub(crate) struct Keeper {
    kept: Option<(PathBuf, Vec<u8>)>,
}

impl Keeper {
    /// Copies the record if it exists.
    pub(crate) fn look(&mut self, record: &Path) {
        if let Ok(text) = fs::read(record)
            && !text.is_empty()
        {
            self.kept = Some((record.to_owned(), text));
        }
    }

    /// Restores the removed record. Returns true if there was one.
    pub(crate) fn put_back(&mut self) -> bool {
        match self.kept.take() {
            Some((path, text)) if !path.exists() => fs::write(path, text).is_ok(),
            _ => false,
        }
    }

    /// Forgets the kept format record, which is invalid after another attachment.
    pub(crate) fn forget(&mut self) {
        self.kept = None;
    }
}
