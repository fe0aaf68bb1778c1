//! Where bytes of the log end up. A log that cannot be written stops nothing.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use super::{LogSettings, Severity};
use crate::clock::now;

pub(super) enum Sink {
    Stderr,
    File(LogFile),
    Memory(Arc<Mutex<Vec<u8>>>),
}

pub(super) struct LogFile {
    path: PathBuf,
    file: File,
    written: u64,
}

impl Sink {
    pub(super) fn open(settings: &LogSettings) -> io::Result<Self> {
        if settings.to_stderr {
            return Ok(Self::Stderr);
        }
        let path = match (&settings.file, &settings.directory) {
            (Some(file), _) => file.clone(),
            (None, Some(directory)) => directory.join(file_name()),
            (None, None) => std::env::temp_dir().join(file_name()),
        };
        Ok(Self::File(LogFile::open(path, settings)?))
    }

    pub(super) fn memory(target: Arc<Mutex<Vec<u8>>>) -> Self {
        Self::Memory(target)
    }

    pub(super) fn write(&mut self, settings: &LogSettings, severity: Severity, bytes: &[u8]) {
        let both = settings.also_to_stderr || severity >= settings.stderr_from;
        // Nobody can be told of an error here.
        let _ignored = match self {
            Self::Stderr => io::stderr().write_all(bytes),
            Self::Memory(target) => {
                target.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
                Ok(())
            }
            Self::File(file) => {
                if both {
                    let _ignored = io::stderr().write_all(bytes);
                }
                file.write(settings, bytes)
            }
        };
    }
}

impl LogFile {
    fn open(path: PathBuf, settings: &LogSettings) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let written = file.metadata()?.len();
        let mut opened = Self { path, file, written };
        opened.begin(settings)?;
        Ok(opened)
    }

    fn begin(&mut self, settings: &LogSettings) -> io::Result<()> {
        if settings.skip_file_headers {
            return Ok(());
        }
        let line = format!(
            "Log file created at: {}\nLog line format: [IWEF]mmdd hh:mm:ss.uuuuuu threadid file:line] msg\n",
            now()
        );
        self.append(line.as_bytes())
    }

    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.written = self.written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        Ok(())
    }

    fn write(&mut self, settings: &LogSettings, bytes: &[u8]) -> io::Result<()> {
        let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        if settings.file_bytes > 0 && self.written.saturating_add(length) > settings.file_bytes {
            self.begin_anew(settings)?;
        }
        self.append(bytes)
    }

    /// The old file stays beside the new one, in place of the one before it.
    fn begin_anew(&mut self, settings: &LogSettings) -> io::Result<()> {
        let old = before(&self.path);
        // Windows renames a file that is open only where everyone who has it open agreed; standard files do.
        if std::fs::rename(&self.path, &old).is_err() {
            self.file.set_len(0)?;
        }
        self.file = OpenOptions::new().create(true).append(true).open(&self.path)?;
        self.written = 0;
        self.begin(settings)
    }
}

fn before(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".1");
    name.into()
}

fn file_name() -> String {
    format!("csi-proxy.INFO.{}.{}.log", now().compact(), std::process::id())
}
