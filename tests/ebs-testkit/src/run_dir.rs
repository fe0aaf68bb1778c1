//! One directory for the files of each test process, which holds a lock (`flock`) on the directory until it ends. If a
//! process is killed, the next run gets the lock and removes everything that is left: recorded processes, mounts, loop
//! devices and files. It leaves the directories of live processes alone.

use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Once, PoisonError, Weak};

use anyhow::{Context, ensure};
use tempfile::TempDir;

use crate::leftovers::Leftovers;
use crate::record::ProcessRecord;

const PREFIX: &str = "ebs-test-";
const LOCK: &str = "lock";
const PROCESSES: &str = "processes";
/// How many times to try to lock a new directory. If a sweeper holds the lock, the next try creates another directory.
const CLAIMS: usize = 20;

/// The locked directory of a process.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Lock,
}

/// A directory below a [`RunDir`] for one fixture, removed on drop.
#[derive(Debug)]
pub struct OwnDir {
    _dir: TempDir,
    path: PathBuf,
    /// Declared last, so that this directory is removed before the run's directory.
    _run: Arc<RunDir>,
}

/// The result of sweeping the directory of a run that has ended.
#[derive(Debug)]
pub struct Swept {
    pub dir: PathBuf,
    /// Descriptions of the removed objects other than files.
    pub removed: Vec<String>,
    /// Why the directory could not be removed completely. The next run tries again.
    pub trouble: Option<anyhow::Error>,
}

impl RunDir {
    /// Returns the directory of this process. The first call removes what ended runs have left, and reports it.
    pub fn current() -> io::Result<Arc<Self>> {
        static CURRENT: Mutex<Weak<RunDir>> = Mutex::new(Weak::new());
        static SWEPT: Once = Once::new();
        let parent = std::env::temp_dir();
        SWEPT.call_once(|| {
            for swept in Self::sweep(&parent) {
                let _ = writeln!(io::stderr(), "{swept}");
            }
        });
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(run) = current.upgrade() {
            return Ok(run);
        }
        let run = Arc::new(Self::claim_in(&parent)?);
        *current = Arc::downgrade(&run);
        Ok(run)
    }

    /// Creates a directory below `parent` and locks it.
    pub fn claim_in(parent: &Path) -> io::Result<Self> {
        for _ in 0..CLAIMS {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let path = dir.path().canonicalize()?;
            // Until it is locked, a sweeper treats the directory as abandoned.
            if let Some(lock) = Lock::free_of(&path) {
                let _kept = dir.keep();
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other(format!("claim a directory below {}: none available", parent.display())))
    }

    /// Returns the real path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a process that may outlive this one, like a container. The next run kills the recorded process.
    pub fn record_process(&self, process: &ProcessRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(process)?;
        line.push(b'\n');
        File::options().create(true).append(true).open(self.path.join(PROCESSES))?.write_all(&line)
    }

    /// Removes what ended runs have left below `parent`. Does not wait: the kernel detaches a device in use after its
    /// last user has closed it.
    pub fn sweep(parent: &Path) -> Vec<Swept> {
        let uid = rustix::process::geteuid().as_raw();
        let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
        let ours = entries.flatten().filter(|entry| {
            let is_ours = entry.metadata().is_ok_and(|meta| meta.is_dir() && meta.uid() == uid);
            is_ours && entry.file_name().to_string_lossy().starts_with(PREFIX)
        });
        ours.filter_map(|entry| Abandoned::take(&entry.path())).map(Abandoned::sweep).collect()
    }
}

impl Drop for RunDir {
    fn drop(&mut self) {
        // If a fixture left anything, the directory stays for the next run.
        for name in [PROCESSES, LOCK] {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir(&self.path);
    }
}

impl OwnDir {
    /// Creates a directory in this process's [`RunDir`].
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::below(None, prefix)
    }

    /// Creates a directory below a directory of the test.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        Self::below(Some(parent), prefix)
    }

    fn below(parent: Option<&Path>, prefix: &str) -> io::Result<Self> {
        let run = RunDir::current()?;
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(parent.unwrap_or(run.path()))?;
        let path = dir.path().canonicalize()?;
        Ok(Self { _dir: dir, path, _run: run })
    }

    /// Returns the real path of the directory.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "removed leftovers of a previous test run: {}", self.dir.display())?;
        for removed in &self.removed {
            write!(f, ", {removed}")?;
        }
        match &self.trouble {
            None => Ok(()),
            Some(trouble) => write!(f, "; failed to remove the rest (the next run retries): {trouble:#}"),
        }
    }
}

/// A directory whose process has ended, locked to keep other sweepers out.
struct Abandoned {
    dir: PathBuf,
    _lock: Lock,
}

impl Abandoned {
    /// Locks the directory. Returns `None` if another process holds the lock.
    fn take(dir: &Path) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        Some(Self { _lock: Lock::free_of(&dir)?, dir })
    }

    fn sweep(self) -> Swept {
        let mut removed = Vec::new();
        let trouble = self.clear(&mut removed).err();
        Swept { dir: self.dir, removed, trouble }
    }

    fn clear(&self, removed: &mut Vec<String>) -> anyhow::Result<()> {
        for process in self.processes() {
            if process.kill()? {
                removed.push(format!("process {} ({})", process.pid, process.name));
            }
        }
        let found = Leftovers::release_below(&self.dir)?;
        if !found.is_empty() {
            removed.push(found.to_string());
        }
        let still = Leftovers::below(&self.dir)?;
        ensure!(still.mounts.is_empty(), "failed to unmount: {still}");
        fs::remove_dir_all(&self.dir).with_context(|| format!("remove {}", self.dir.display()))
    }

    fn processes(&self) -> Vec<ProcessRecord> {
        let lines = fs::read_to_string(self.dir.join(PROCESSES)).unwrap_or_default();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// Locks this directory. Returns `None` if the lock is not free.
    fn free_of(dir: &Path) -> Option<Self> {
        let path = dir.join(LOCK);
        let lock = File::options().create(true).truncate(false).write(true).open(&path).ok()?;
        match lock.try_lock() {
            Ok(()) => Some(Self(lock)).filter(|lock| is_at(&lock.0, &path)),
            Err(TryLockError::WouldBlock | TryLockError::Error(_)) => None,
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If the file were only closed, a child that another thread has forked would hold the lock until its exec.
        let _ = self.0.unlock();
    }
}

fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}
