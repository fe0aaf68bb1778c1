//! Bugs that are planted beside the service, by what they leave on the disk, so that it is known that the torture finds
//! them. The service itself is the real one.

use std::fs;
use std::path::{Path, PathBuf};

/// A planted bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Planted {
    /// The record of a format outlives a call that was refused, or whose mkfs failed by itself: the refusal becomes a leave to
    /// format at the next call.
    RecordOutlivesRefusal,
    /// The record of a format outlives the publishing of the device as a raw one, whose data are then formatted over.
    RecordOutlivesRawPublish,
    /// A mount stays behind when the volume is unstaged.
    MountStaysBehind,
}

impl Planted {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::RecordOutlivesRefusal, Self::RecordOutlivesRawPublish, Self::MountStaysBehind];
}

/// Keeps what the service writes down while it formats, to put it back when it is rightly gone.
#[derive(Debug)]
pub(crate) struct Keeper {
    state: PathBuf,
    kept: Option<(PathBuf, Vec<u8>)>,
}

impl Keeper {
    pub(crate) fn new(state: &Path) -> Self {
        Self { state: state.to_owned(), kept: None }
    }

    /// The records of formats in progress that are there now.
    pub(crate) fn records(state: &Path) -> Vec<PathBuf> {
        let entries = fs::read_dir(state).into_iter().flatten().flatten();
        let is_record = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with("format-");
        // A record that is still being written has another ending.
        entries.filter(is_record).map(|e| e.path()).filter(|path| path.extension().is_none_or(|e| e != "new")).collect()
    }

    /// Remembers what is there.
    pub(crate) fn look(&mut self) {
        for path in Self::records(&self.state) {
            if let Ok(text) = fs::read(&path)
                && !text.is_empty()
            {
                self.kept = Some((path, text));
            }
        }
    }

    /// Puts the record back when it is gone; true when there was one.
    pub(crate) fn put_back(&mut self) -> bool {
        match self.kept.take() {
            Some((path, text)) if !path.exists() => fs::write(path, text).is_ok(),
            _ => false,
        }
    }

    /// Another attachment: a record of the former one means nothing.
    pub(crate) fn forget(&mut self) {
        self.kept = None;
    }
}
