//! The state directory: locked by one simulator at a time, written so that it is always whole.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use crate::state::Sim;

use super::{EngineConfig, EngineError};

const STATE: &str = "state.json";
const NEW_STATE: &str = "state.json.new";
const LOCK: &str = "lock";

/// A state directory that is ours.
#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    /// The lock goes with the process, however it ends.
    _lock: File,
}

impl Store {
    /// Makes the directory when it is missing and takes its lock.
    pub(super) fn open(dir: &Path) -> Result<Self, EngineError> {
        let io = |step, path: &Path| {
            let path = path.to_owned();
            move |source| EngineError::Io { step, path, source }
        };
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(io("create the state directory", dir))?;
        let dir = dir.canonicalize().map_err(io("resolve the state directory", dir))?;
        let path = dir.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(io("open the lock file", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir, _lock: lock }),
            Err(TryLockError::WouldBlock) => Err(EngineError::StateDirInUse(dir)),
            Err(TryLockError::Error(source)) => Err(io("lock", &path)(source)),
        }
    }

    /// The directory, resolved.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// The state of a former run, if there was one.
    pub(super) fn load(&self, config: &EngineConfig) -> Result<Option<Sim>, EngineError> {
        let path = self.dir.join(STATE);
        let saved = match std::fs::read(&path) {
            Ok(saved) => saved,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(EngineError::Io { step: "read", path, source }),
        };
        Sim::load(&saved, config).map(Some).map_err(|reason| EngineError::State { path, reason })
    }

    /// Where [`write_whole`] puts the state.
    pub(super) fn state_file(&self) -> PathBuf {
        self.dir.join(STATE)
    }
}

/// Writes a file so that a reader, or a simulator killed in the middle, sees the old content or the new one. Not
/// synced: it has to survive the process, not the machine.
pub(super) fn write_whole(path: &Path, content: &[u8]) -> io::Result<()> {
    let new = path.with_file_name(NEW_STATE);
    File::create(&new)?.write_all(content)?;
    std::fs::rename(new, path)
}
