//! The ledger on disk: the current file, and an older file once the current one has become too large.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

const NAME: &str = "ledger.jsonl";
const OLDER: &str = "ledger.1.jsonl";

/// Maximum size of one file in bytes. There are at most two files.
const LARGEST: u64 = 64 << 20;

#[derive(Debug)]
pub(super) struct LedgerFile {
    path: PathBuf,
    file: File,
    bytes: u64,
    largest: u64,
}

impl LedgerFile {
    /// Opens the file and reads the last lines of previous runs. Removes an incomplete last line, which a kill may
    /// leave.
    pub(super) fn open(dir: &Path, most: usize) -> io::Result<(Self, VecDeque<Box<str>>)> {
        Self::with(dir, most, LARGEST)
    }

    pub(super) fn with(dir: &Path, most: usize, largest: u64) -> io::Result<(Self, VecDeque<Box<str>>)> {
        let path = dir.join(NAME);
        let mut file = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path)?;
        let content = read(&path)?;
        let whole = content.rfind('\n').map_or(0, |end| end + 1);
        let bytes = u64::try_from(whole).unwrap_or(u64::MAX);
        file.set_len(bytes)?;
        file.seek(SeekFrom::End(0))?;
        let older = read(&dir.join(OLDER))?;
        let mut lines: VecDeque<Box<str>> =
            content[..whole].lines().rev().chain(older.lines().rev()).take(most).map(Box::from).collect();
        lines.make_contiguous().reverse();
        Ok((Self { path, file, bytes, largest }, lines))
    }

    pub(super) fn append(&mut self, line: &str) -> io::Result<()> {
        if self.bytes >= self.largest {
            self.turn_over()?;
        }
        let line = format!("{line}\n");
        self.bytes += u64::try_from(line.len()).unwrap_or(0);
        self.file.write_all(line.as_bytes())
    }

    fn turn_over(&mut self) -> io::Result<()> {
        std::fs::rename(&self.path, self.path.with_file_name(OLDER))?;
        self.file = OpenOptions::new().write(true).create_new(true).open(&self.path)?;
        self.bytes = 0;
        Ok(())
    }
}

/// Returns the text of a file, or an empty string if the file is missing or its text is invalid.
fn read(path: &Path) -> io::Result<String> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(error),
    }
}
