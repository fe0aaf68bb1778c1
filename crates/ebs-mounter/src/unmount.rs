//! Taking away everything that is mounted at a path.

use std::io;
use std::path::PathBuf;

use crate::bounded;
use crate::mounter::Mounter;
use crate::mountinfo::{MountTable, MountTableError};
use crate::os;
use crate::path::NodePath;

/// More mounts on top of each other than this are somebody's mistake.
const MAX_DEPTH: usize = 64;

/// Why something is still mounted.
#[derive(Debug, thiserror::Error)]
pub enum UnmountError {
    /// The mount table cannot be read.
    #[error("it is not known what is mounted at {path}")]
    Table {
        /// Where.
        path: NodePath,
        /// Why.
        source: MountTableError,
    },
    /// Somebody uses it.
    #[error("{} is in use: a process has a file open on it or works in it", path.display())]
    Busy {
        /// Where.
        path: PathBuf,
    },
    /// The kernel refused for another reason.
    #[error("{} could not be unmounted", path.display())]
    Refused {
        /// Where.
        path: PathBuf,
        /// Its answer.
        source: io::Error,
    },
    /// As often as it was unmounted, something was still there.
    #[error("{} mounts were taken from {} and there are more", MAX_DEPTH, path.display())]
    Endless {
        /// Where.
        path: PathBuf,
    },
}

/// What was taken away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unmounted {
    /// Mounts in all.
    pub mounts: usize,
    /// Of them, mounts whose device had vanished: what was not flushed to it is lost.
    pub vanished: usize,
}

impl Mounter {
    /// Unmounts all that lies on top of each other at a path. Only a mount whose device has vanished is detached lazily
    /// (`decisions.md` D-35), and that is said in the log; a device that errs or hangs has not vanished.
    ///
    /// # Errors
    /// [`UnmountError`]; what was unmounted before stays unmounted.
    pub async fn unmount_all(&self, path: &NodePath) -> Result<Unmounted, UnmountError> {
        let unknown = |source| UnmountError::Table { path: path.clone(), source };
        let at = path.in_table().await.map_err(|error| unknown(MountTableError::Read(error)))?;
        let mut done = Unmounted::default();
        for _ in 0..MAX_DEPTH {
            let table = MountTable::read().await.map_err(unknown)?;
            let Some(entry) = table.topmost(&at) else { return Ok(done) };
            let exists = self.exists(entry.device).await.map_err(|error| unknown(MountTableError::Read(error)))?;
            if !exists {
                tracing::error!(path = %at.display(), device = %entry.device, source = %entry.source.display(),
                    "the device vanished under its mount: what was not flushed to it is lost");
                done.vanished += 1;
            }
            let target = at.clone();
            let outcome = bounded::changing("unmounting", &at, move || os::unmount(&target, !exists)).await;
            outcome.map_err(|source| match source.kind() {
                io::ErrorKind::ResourceBusy => UnmountError::Busy { path: at.clone() },
                _ => UnmountError::Refused { path: at.clone(), source },
            })?;
            done.mounts += 1;
        }
        Err(UnmountError::Endless { path: at })
    }
}
