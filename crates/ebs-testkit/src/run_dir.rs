//! Where tests keep what they make: one directory for each test process, so that the next run finds and removes what a
//! killed one left, and touches nothing of a run that still lives.
//!
//! **Whose is it?** A process holds the lock (`flock`) of its directory as long as it has anything in it. The kernel takes
//! the lock away with the process, however that ends; a child shares it only until it runs its program. So what lies below
//! a directory whose lock is free belongs to nobody: processes that were written down there by id and start time, mounts,
//! loop devices by their backing files, files. A directory below which a lock is held, like that of a suite that outlives
//! its run, stays.

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
/// A sweeper may hold the lock of a directory that was just made; then another one is made.
const CLAIMS: usize = 20;

/// The directory of a process, held.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Lock,
}

/// A directory below a [`RunDir`], for one fixture; removed when dropped.
#[derive(Debug)]
pub struct OwnDir {
    _dir: TempDir,
    path: PathBuf,
    /// Declared last: the run's directory goes after the fixtures'.
    run: Arc<RunDir>,
}

/// What was done about the directory of a run that is gone.
#[derive(Debug)]
pub struct Swept {
    pub dir: PathBuf,
    /// What was removed besides files, for people.
    pub removed: Vec<String>,
    /// Why it could not be removed whole; the next run tries again.
    pub trouble: Option<anyhow::Error>,
}

impl RunDir {
    /// That of this process, in the system's directory for temporary files: made when nothing holds one. The first time
    /// in a process, what former runs left there is removed, and told of on standard error.
    ///
    /// # Errors
    /// When it cannot be made.
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

    /// Makes one below `parent` and takes its lock.
    ///
    /// # Errors
    /// When it cannot be made or locked.
    pub fn claim_in(parent: &Path) -> io::Result<Self> {
        for _ in 0..CLAIMS {
            let dir = tempfile::Builder::new().prefix(PREFIX).tempdir_in(parent)?;
            let path = dir.path().canonicalize()?;
            // A sweeper that came between has taken it for a dead one's.
            if let Some(lock) = Lock::free_of(&path) {
                let _kept = dir.keep();
                return Ok(Self { path, _lock: lock });
            }
        }
        Err(io::Error::other(format!("no directory below {} could be claimed", parent.display())))
    }

    /// Its real path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down a process that this run has started: should it outlive the run, the next one ends it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, process: &ProcessRecord) -> io::Result<()> {
        let mut line = serde_json::to_vec(process)?;
        line.push(b'\n');
        File::options().create(true).append(true).open(self.path.join(PROCESSES))?.write_all(&line)
    }

    /// Removes what runs that are gone have left below `parent`. Waits for nothing: a device that is still in use goes
    /// with its last user.
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
        // What a fixture could not remove stays, for the next run.
        for name in [PROCESSES, LOCK] {
            let _ = fs::remove_file(self.path.join(name));
        }
        let _ = fs::remove_dir(&self.path);
    }
}

impl OwnDir {
    /// A fresh one in this process's [`RunDir`].
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new(prefix: &str) -> io::Result<Self> {
        Self::below(None, prefix)
    }

    /// A fresh one below a directory that the test has for itself.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn new_in(parent: &Path, prefix: &str) -> io::Result<Self> {
        Self::below(Some(parent), prefix)
    }

    fn below(parent: Option<&Path>, prefix: &str) -> io::Result<Self> {
        let run = RunDir::current()?;
        let dir = tempfile::Builder::new().prefix(prefix).tempdir_in(parent.unwrap_or(run.path()))?;
        let path = dir.path().canonicalize()?;
        Ok(Self { _dir: dir, path, run })
    }

    /// Its real path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Writes down a process, as [`RunDir::note`] does.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&self, process: &ProcessRecord) -> io::Result<()> {
        self.run.note(process)
    }
}

impl fmt::Display for Swept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "left by a former test run and removed: {}", self.dir.display())?;
        for removed in &self.removed {
            write!(f, ", {removed}")?;
        }
        match &self.trouble {
            None => Ok(()),
            Some(trouble) => write!(f, "; but not all of it, the next run tries again: {trouble:#}"),
        }
    }
}

/// A directory whose process is gone, with its lock: nobody else removes it meanwhile.
struct Abandoned {
    dir: PathBuf,
    _locks: Vec<Lock>,
}

impl Abandoned {
    /// Takes it, unless somebody below it lives.
    fn take(dir: &Path) -> Option<Self> {
        let dir = dir.canonicalize().ok()?;
        let mut locks = vec![Lock::free_of(&dir)?];
        // The suites of a run have theirs in that of the run, and may outlive it.
        for entry in fs::read_dir(&dir).ok()?.flatten() {
            if entry.file_name().to_string_lossy().starts_with(PREFIX) {
                locks.push(Lock::free_of(&entry.path())?);
            }
        }
        Some(Self { dir, _locks: locks })
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
        ensure!(still.mounts.is_empty(), "cannot be unmounted: {still}");
        fs::remove_dir_all(&self.dir).with_context(|| format!("remove {}", self.dir.display()))
    }

    /// Those that its process and its suites' have written down; a line that was cut off with its writer tells nothing.
    fn processes(&self) -> Vec<ProcessRecord> {
        let below = fs::read_dir(&self.dir).into_iter().flatten().flatten().map(|entry| entry.path());
        let files = below.map(|path| path.join(PROCESSES)).chain([self.dir.join(PROCESSES)]);
        let lines = files.filter_map(|file| fs::read_to_string(file).ok()).collect::<String>();
        lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// The lock of a directory, held.
#[derive(Debug)]
struct Lock(File);

impl Lock {
    /// That of this directory, if nobody has it.
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
        // Closing alone would leave it to a child of another thread that has not yet run its program.
        let _ = self.0.unlock();
    }
}

/// Whether the open file is the one at this path.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), fs::metadata(path)) else { return false };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}
