//! Errors of a mounted ext file system that the kernel has counted or marked.
//!
//! It counts them from one check of the file system to the next, over mounts too. Some kernels (6.12 to 6.14, and older ones that
//! took over the same change) end all writes after an error of the journal and show it nowhere else: their mount table says `rw`.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::bounded;
use crate::device::{DeviceError, Identity, attribute};
use crate::mounter::Mounter;
use crate::mountinfo::MountEntry;

/// Errors that the kernel has met in the metadata of a file system since that was last checked; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedErrors {
    pub count: u64,
    /// The kernel's function that has met the last of them.
    pub last: Option<String>,
}

impl fmt::Display for CountedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, if self.count == 1 { "error" } else { "errors" })?;
        self.last.as_ref().map_or(Ok(()), |last| write!(f, ", the last in {last}"))
    }
}

/// What the kernel has recorded of errors in the metadata of a file system since that was last checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedErrors {
    /// It has counted them.
    Counted(CountedErrors),
    /// It has marked the superblock and counted none: the journal had recorded the error before the mount.
    Marked,
}

impl fmt::Display for RecordedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(errors) => errors.fmt(f),
            Self::Marked => f.write_str("the superblock is marked"),
        }
    }
}

impl Mounter {
    /// The errors that the kernel has recorded of the file system of a mount; `None`: none, or it records none of this kind. The
    /// superblock of a mounted file system is read from the kernel's memory, where its driver keeps it. Of a disk that does not
    /// identify itself (Xen), only the count is known.
    ///
    /// # Errors
    /// Those of sysfs and of the device, also that a look hangs.
    pub async fn recorded_errors(&self, entry: &MountEntry) -> io::Result<Option<RecordedErrors>> {
        if let Some(errors) = self.counted_errors(entry).await? {
            return Ok(Some(RecordedErrors::Counted(errors)));
        }
        if !is_ext(entry) {
            return Ok(None);
        }
        let Ok(Some(Identity::Volume(volume))) = self.identify(entry.device).await else { return Ok(None) };
        let opened = self.open_mounted(&volume, entry.device).await;
        let device = opened.map_err(|error| match error {
            DeviceError::Stuck(stuck) => stuck.into(),
            other => io::Error::other(other),
        })?;
        Ok(self.has_error_state(&device).await?.then_some(RecordedErrors::Marked))
    }

    /// True when the file system that is mounted at a path can still be written: a file without a name is made in its root
    /// directory and goes again at once. A full file system can be written, and so can one whose root directory takes no new
    /// files (`chattr +i`, a policy of the kernel).
    ///
    /// # Errors
    /// What the kernel answers when it does not tell, also that it does not answer in time, as for a frozen file system. A try
    /// that hangs keeps further tries off, and no other look at the path.
    pub async fn can_write(&self, at: &Path) -> io::Result<bool> {
        let path = at.to_owned();
        let make = move || {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
                // The last two tell nothing about the file system, and no pod is kept out for them.
                Ok(_) | Err(Errno::NOSPC | Errno::DQUOT | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(true),
                Err(Errno::ROFS | Errno::IO | Errno::UCLEAN | Errno::SHUTDOWN) => Ok(false),
                Err(error) => Err(io::Error::from(error)),
            }
        };
        // A place of its own: unstage looks at the path before it thaws the file system, which ends the try.
        let place = at.join("(a file without a name)");
        bounded::reading("the creation", &place, make).await
    }

    /// The errors that the kernel has counted of the file system of a mount; `None`: none, or it counts none of this kind.
    /// Only the kernel's memory is looked at, never the disk.
    ///
    /// # Errors
    /// What sysfs says, also that the look hangs.
    async fn counted_errors(&self, entry: &MountEntry) -> io::Result<Option<CountedErrors>> {
        if !is_ext(entry) {
            return Ok(None);
        }
        let place = self.config.sys.join("dev/block").join(entry.device.to_string());
        let (at, file_systems) = (place.clone(), self.config.sys.join("fs/ext4"));
        bounded::reading("reading the counted errors", &place, move || counted(&at, &file_systems)).await
    }
}

/// The driver for ext4 mounts ext2 and ext3 too, and records errors of them in the same places.
fn is_ext(entry: &MountEntry) -> bool {
    matches!(entry.fs_type.as_str(), "ext2" | "ext3" | "ext4")
}

/// `device`: its place in sysfs, whose name the file system has too.
fn counted(device: &Path, file_systems: &Path) -> io::Result<Option<CountedErrors>> {
    let directory = match device.canonicalize() {
        Ok(directory) => directory,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let of_it = file_systems.join(directory.file_name().unwrap_or(OsStr::new("")));
    let Some(count) = attribute(&of_it.join("errors_count"))? else { return Ok(None) };
    let count = count.parse().map_err(|_| io::Error::other(format!("the kernel counts {count:?} errors")))?;
    if count == 0 {
        return Ok(None);
    }
    Ok(Some(CountedErrors { count, last: attribute(&of_it.join("last_error_func"))? }))
}

#[cfg(test)]
mod tests {
    use ebs_testkit::mount_namespace::in_mount_namespace;
    use rustix::mount::MountFlags;

    use super::*;
    use crate::config::MounterConfig;
    use crate::path::NodePath;

    #[test]
    fn a_full_file_system_can_be_written_and_a_read_only_one_cannot() {
        in_mount_namespace(|| async {
            let place = tempfile::tempdir().unwrap();
            let root = place.path().canonicalize().unwrap();
            let mounter = Mounter::new(MounterConfig::new(root.join("state"))).unwrap();
            let at = NodePath::parse(root.join("mounted").to_str().unwrap()).unwrap();
            at.create_directory().await.unwrap();
            rustix::mount::mount("none", at.as_path(), "tmpfs", MountFlags::empty(), Some(c"nr_inodes=1")).unwrap();
            assert!(mounter.can_write(at.as_path()).await.unwrap(), "no inode is left");
            rustix::mount::mount_remount(at.as_path(), MountFlags::RDONLY, "").unwrap();
            assert!(!mounter.can_write(at.as_path()).await.unwrap());
            rustix::mount::unmount(at.as_path(), rustix::mount::UnmountFlags::empty()).unwrap();
            assert!(mounter.can_write(at.as_path()).await.unwrap());
        });
    }

    #[test]
    fn errors_are_those_of_the_file_system_that_has_the_devices_name() {
        let sys = tempfile::tempdir().unwrap();
        let at = |path: &str| sys.path().join(path);
        let (device, file_systems) = (at("block/nvme1n1"), at("fs/ext4"));
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(at("fs/ext4/nvme1n1")).unwrap();
            std::fs::write(at("fs/ext4/nvme1n1").join(name), text).unwrap();
        };
        assert_eq!(counted(&device, &file_systems).unwrap(), None, "no such device");
        std::fs::create_dir_all(&device).unwrap();
        assert_eq!(counted(&device, &file_systems).unwrap(), None, "the kernel counts nothing of it");
        write("errors_count", "0\n");
        write("last_error_func", "\n");
        assert_eq!(counted(&device, &file_systems).unwrap(), None);
        write("errors_count", "1\n");
        assert_eq!(counted(&device, &file_systems).unwrap().unwrap().to_string(), "1 error");
        write("errors_count", "8\n");
        write("last_error_func", "ext4_journal_check_start\n");
        let errors = counted(&device, &file_systems).unwrap().unwrap();
        assert_eq!(errors.to_string(), "8 errors, the last in ext4_journal_check_start");
        write("errors_count", "many\n");
        assert!(counted(&device, &file_systems).is_err());
    }
}
