//! The state directory: locked by one simulator at a time, and always consistent.
//!
//! `state.json` has a saved state and the number of the first journal after it. The simulator saves the state again
//! from time to time, while calls continue in a new journal. Nothing is synced: the data must survive a killed process,
//! not a crash of the machine.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;

use crate::state::Sim;

use super::journal::{self, Input, Journal};
use super::{EngineConfig, EngineError, blocking};

const STATE: &str = "state.json";
const NEW_STATE: &str = "state.json.new";
const LOCK: &str = "lock";
const JOURNAL: &str = "journal-";

/// The number of journal lines after which the simulator saves the state again.
const LINES: usize = 2_000;

/// The first line of the state file. The second line is the state itself.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Header {
    /// The first journal after this state.
    journal: u64,
    /// The time of the state. The clock of a later run starts no earlier.
    now: SystemTime,
}

#[derive(Debug)]
pub(super) struct Store {
    dir: PathBuf,
    /// The lock, which is released when the process ends or after the last save.
    lock: Arc<File>,
    /// The current journal and its number, or `None` before the first save.
    journal: Option<(u64, Journal)>,
    saving: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct LoadedState {
    /// The state at the end of the previous run.
    pub(super) sim: Sim,
    /// The last recorded time of the previous run.
    pub(super) now: SystemTime,
}

impl Store {
    /// Creates the directory if missing, and locks it.
    pub(super) fn open(dir: &Path) -> Result<Self, EngineError> {
        DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(failed("create the state directory", dir))?;
        let dir = dir.canonicalize().map_err(failed("resolve the state directory", dir))?;
        let path = dir.join(LOCK);
        let lock = OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(failed("open the lock file", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { dir, lock: Arc::new(lock), journal: None, saving: None }),
            Err(TryLockError::WouldBlock) => Err(EngineError::StateDirInUse(dir)),
            Err(TryLockError::Error(source)) => Err(failed("lock", &path)(source)),
        }
    }

    /// Returns the resolved directory.
    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    /// Loads the state of a previous run, if there is one, and replays its journals. The state gets the limits of this
    /// run.
    pub(super) fn load(&self, config: &EngineConfig) -> Result<Option<LoadedState>, EngineError> {
        let path = self.dir.join(STATE);
        let saved = match std::fs::read(&path) {
            Ok(saved) => saved,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(failed("read", &path)(source)),
        };
        let bad = |reason| EngineError::State { path: path.clone(), reason };
        let (header, state) = split(&saved).map_err(bad)?;
        let mut found = LoadedState { sim: Sim::read(state).map_err(bad)?, now: header.now };
        for number in self.journals()?.into_iter().filter(|number| *number >= header.journal) {
            let path = self.journal(number);
            let replayed = journal::replay(&path, &mut found.sim).map_err(failed("read", &path))?;
            let last = replayed.map_err(|reason| EngineError::State { path, reason })?;
            found.now = found.now.max(last.unwrap_or(found.now));
        }
        found.sim.adopt(config);
        Ok(Some(found))
    }

    pub(super) fn begin(&mut self, sim: &Sim, now: SystemTime) -> Result<(), EngineError> {
        let old = self.journals()?;
        let number = old.last().map_or(0, |last| last + 1);
        let path = self.journal(number);
        let journal = Journal::create(&path).map_err(failed("create", &path))?;
        self.journal = Some((number, journal));
        let state = self.dir.join(STATE);
        write_state(&self.dir, Header { journal: number, now }, sim).map_err(failed("write", &state))?;
        remove_journals(&self.dir, number);
        Ok(())
    }

    pub(super) fn write(&mut self, now: SystemTime, input: &Input, sim: &Sim) {
        let Some((number, journal)) = &mut self.journal else { return };
        if let Err(error) = journal.write(input) {
            tracing::error!(%error, "failed to write a change to the journal, so the next run will lack the change");
        }
        let number = *number;
        let full = journal.lines() >= LINES && self.saving.as_ref().is_none_or(JoinHandle::is_finished);
        if full && let Err(error) = self.turn_over(number + 1, sim, now) {
            tracing::warn!(%error, "failed to save state, continuing its journal");
        }
    }

    /// Begins the next journal, and saves the state that precedes it.
    fn turn_over(&mut self, number: u64, sim: &Sim, now: SystemTime) -> io::Result<()> {
        let journal = Journal::create(&self.journal(number))?;
        self.journal = Some((number, journal));
        let (dir, sim, lock) = (self.dir.clone(), sim.clone(), Arc::clone(&self.lock));
        self.saving = Some(tokio::task::spawn_blocking(move || {
            // Keep the lock until the state is saved.
            let _lock = lock;
            match write_state(&dir, Header { journal: number, now }, &sim) {
                Ok(()) => remove_journals(&dir, number),
                Err(error) => tracing::warn!(%error, "failed to save state, keeping its journals"),
            }
        }));
        Ok(())
    }

    /// Saves the final state and unlocks the directory.
    pub(super) async fn close(mut self, sim: Sim, now: SystemTime) {
        if let Some(saving) = self.saving.take() {
            // `write_state` reports its own failures.
            let _done = saving.await;
        }
        blocking(move || {
            let Some((number, _)) = self.journal else { return };
            match write_state(&self.dir, Header { journal: number + 1, now }, &sim) {
                Ok(()) => remove_journals(&self.dir, number + 1),
                Err(error) => tracing::warn!(%error, "failed to save state, keeping its journal"),
            }
        })
        .await;
    }

    fn journal(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{JOURNAL}{number}"))
    }

    fn journals(&self) -> Result<Vec<u64>, EngineError> {
        journals(&self.dir).map_err(failed("list", &self.dir))
    }
}

fn split(saved: &[u8]) -> Result<(Header, &[u8]), String> {
    let end = saved.iter().position(|byte| *byte == b'\n').unwrap_or(saved.len());
    let (header, state) = saved.split_at(end);
    let header = serde_json::from_slice(header).map_err(|e| format!("not the state of a simulator: {e}"))?;
    Ok((header, state.get(1..).unwrap_or_default()))
}

fn journals(dir: &Path) -> io::Result<Vec<u64>> {
    let mut numbers = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let name = entry?.file_name();
        numbers.extend(name.to_str().and_then(|n| n.strip_prefix(JOURNAL)).and_then(|n| n.parse::<u64>().ok()));
    }
    numbers.sort_unstable();
    Ok(numbers)
}

/// Removes the journals with a lower number. The state file already includes them.
fn remove_journals(dir: &Path, before: u64) {
    for number in journals(dir).unwrap_or_default().into_iter().filter(|number| *number < before) {
        // A later run ignores a journal that remains, because of its number.
        let _stays = std::fs::remove_file(dir.join(format!("{JOURNAL}{number}")));
    }
}

/// Writes the state file atomically. A reader, or a simulator that starts after a kill, sees either the old or the new
/// file.
fn write_state(dir: &Path, header: Header, sim: &Sim) -> io::Result<()> {
    let new = dir.join(NEW_STATE);
    let mut content = serde_json::to_vec(&header).map_err(io::Error::other)?;
    content.push(b'\n');
    content.append(&mut sim.save());
    File::create(&new)?.write_all(&content)?;
    std::fs::rename(new, dir.join(STATE))
}

fn failed(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> EngineError {
    let path = path.to_owned();
    move |source| EngineError::Io { step, path, source }
}
