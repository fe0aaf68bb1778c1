//! A mount namespace with copies of mounts, as a container has that mounts the host's root without propagation: an
//! unmount on the host leaves the copy mounted.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use ebs_testkit::leftovers::mount_points;
use ebs_testkit::mount_namespace::enter;
use rustix::mount::UnmountFlags;

/// Copies of mounts, until drop. A thread holds them, so they end with this process, however it ends.
#[derive(Debug)]
pub(crate) struct MountCopy {
    /// Closes the open file. Dropping it ends the thread.
    close: Option<Sender<()>>,
    closed: Receiver<()>,
    thread: Option<JoinHandle<()>>,
    is_open: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Copied {
    /// Of the mounts below this directory, the copy keeps only those at or below one of `kept`.
    pub(crate) below: PathBuf,
    pub(crate) kept: Vec<PathBuf>,
    /// A file or directory on a copied mount to hold open.
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
            // Each receive ends when the owner drops the copy.
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
        // A mount below another detached one is already gone.
        let _gone = rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
    what.open.as_ref().map(File::open).transpose()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rustix::io::Errno;
    use rustix::mount::{MountFlags, mount, unmount};

    use super::*;
    use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
    use ebs_testkit::mount_namespace::in_mount_namespace;
    use ebs_testkit::process::tool;

    fn is_claimed(device: &Path) -> bool {
        use std::os::unix::fs::OpenOptionsExt;
        File::options().read(true).custom_flags(libc::O_EXCL).open(device).is_err()
    }

    #[test]
    fn copy_holds_a_disk_until_directory_or_file_is_released() {
        in_mount_namespace(|| async {
            let disk = LoopDevice::new(&unused_volume_id(), 8 << 20).unwrap();
            let device = disk.path().to_string_lossy().into_owned();
            tool("/usr/sbin/mkfs.ext4", &["-q", &device], std::time::Duration::from_secs(60)).await.unwrap();
            for is_open in [false, true] {
                let at = disk.directory().join("mnt");
                std::fs::create_dir(&at).unwrap();
                mount(disk.path(), &at, "ext4", MountFlags::empty(), None).unwrap();
                let what = Copied {
                    below: disk.directory().to_owned(),
                    kept: vec![at.clone()],
                    open: is_open.then(|| at.clone()),
                };
                let mut copy = MountCopy::new(what).unwrap();
                unmount(&at, UnmountFlags::empty()).unwrap();
                assert!(is_claimed(disk.path()), "the copy holds it");
                std::fs::remove_dir(&at).unwrap();
                assert_eq!(is_claimed(disk.path()), is_open);
                copy.close();
                assert!(!is_claimed(disk.path()), "nobody uses it");
                assert_eq!(unmount(&at, UnmountFlags::empty()), Err(Errno::NOENT));
            }
        });
    }

    #[test]
    fn copy_with_a_missing_file_to_open_is_an_error() {
        in_mount_namespace(|| async {
            let place = tempfile::tempdir().unwrap();
            let open = Some(place.path().join("missing"));
            let what = Copied { below: place.path().to_owned(), kept: Vec::new(), open };
            assert_eq!(MountCopy::new(what).unwrap_err().kind(), io::ErrorKind::NotFound);
        });
    }
}
