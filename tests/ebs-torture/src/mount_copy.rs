//! A mount namespace with copies of mounts, like the namespace of a container that mounts the host's root without propagation:
//! after an unmount on the host, the copy stays mounted.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ebs_testkit::leftovers::mount_points;
use ebs_testkit::mount_namespace::enter;
use rustix::mount::UnmountFlags;

/// Copies of mounts, which last until this value is dropped. A thread holds them, so they also end when this process
/// ends or is killed.
#[derive(Debug)]
pub(crate) struct MountCopy {
    /// The channel that makes the thread close the open file. Dropping it ends the thread.
    close: Option<Sender<()>>,
    closed: Receiver<()>,
    thread: Option<JoinHandle<()>>,
    is_open: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Copied {
    /// The directory whose mounts are filtered: the copy keeps only mounts at or below a path in `kept`.
    pub(crate) below: PathBuf,
    pub(crate) kept: Vec<PathBuf>,
    /// A file or directory on a copied mount that the thread keeps open.
    pub(crate) open: Option<PathBuf>,
}

impl MountCopy {
    /// Copies the mounts of the calling thread's namespace.
    pub(crate) fn new(what: Copied) -> io::Result<Self> {
        let ((close, wait), (ready, is_ready), (tell_closed, closed)) = (channel(), channel(), channel());
        let is_open = what.open.is_some();
        let hold = move || {
            let (open, outcome) = match copy(&what) {
                Ok(open) => (open, Ok(())),
                Err(error) => (None, Err(error)),
            };
            // Each receive returns when the owner drops the copy.
            if ready.send(outcome).is_ok() && wait.recv().is_ok() {
                drop(open);
                let _gone = tell_closed.send(());
                let _ended = wait.recv();
            }
        };
        let thread = std::thread::Builder::new().name("mount-copy".to_owned()).spawn(hold)?;
        let copy = Self { close: Some(close), closed, thread: Some(thread), is_open };
        is_ready.recv().map_err(io::Error::other)??;
        Ok(copy)
    }

    /// Closes the open file, if any. The copies stay.
    pub(crate) fn close(&mut self) {
        if std::mem::take(&mut self.is_open)
            && let Some(close) = &self.close
            && close.send(()).is_ok()
        {
            let _ended = self.closed.recv();
        }
    }
}

impl Drop for MountCopy {
    fn drop(&mut self) {
        self.close = None;
        if let Some(thread) = self.thread.take() {
            let _panicked = thread.join();
        }
    }
}

fn copy(what: &Copied) -> io::Result<Option<File>> {
    enter();
    let table = std::fs::read("/proc/thread-self/mountinfo")?;
    let is_kept = |point: &Path| what.kept.iter().any(|kept| point.starts_with(kept));
    for point in mount_points(&table).iter().rev().filter(|point| point.starts_with(&what.below) && !is_kept(point)) {
        // Fails for a mount below a mount that is already detached.
        let _gone = rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
    what.open.as_ref().map(File::open).transpose()
}
