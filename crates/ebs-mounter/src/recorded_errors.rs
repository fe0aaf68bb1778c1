//! Errors that the kernel records for a mounted ext file system. After a journal error, some kernels (6.12 to 6.14, and
//! older ones with the same change) reject all writes although the mount table still shows `rw`.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use crate::bounded;
use crate::config::MounterConfig;
use crate::device::{DeviceError, Identity, attribute};
use crate::mounter::Mounter;
use crate::mountinfo::MountEntry;
use crate::os::if_exists;

/// The metadata errors that the kernel has counted since the last check of the file system; at least one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountedErrors {
    pub count: u64,
    /// The kernel function that found the last error.
    pub last: Option<String>,
}

impl fmt::Display for CountedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.count, if self.count == 1 { "error" } else { "errors" })?;
        self.last.as_ref().map_or(Ok(()), |last| write!(f, ", the last in {last}"))
    }
}

/// The metadata errors that the kernel has recorded since the last check of the file system.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RecordedErrors {
    /// The kernel has counted the errors.
    Counted(CountedErrors),
    /// The kernel marked the superblock without counting the error, because the journal recorded it before the mount.
    Marked,
}

impl fmt::Display for RecordedErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counted(errors) => errors.fmt(f),
            Self::Marked => f.write_str("the superblock has the error flag"),
        }
    }
}

impl Mounter {
    /// Returns the errors that the kernel has recorded for the file system of a mount, if the kernel records errors for
    /// its type. Reads the kernel's memory. For a disk without an identity (Xen), only the count is known.
    pub async fn recorded_errors(&self, entry: &MountEntry) -> io::Result<Option<RecordedErrors>> {
        if let Some(errors) = counted_errors(&self.config, entry).await? {
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

    /// True if the mounted file system is still writable. A full one counts as writable, and so does one whose root
    /// directory rejects files (`chattr +i`, a security policy). A check that hangs blocks further checks, but no other
    /// read of the path.
    pub async fn can_write(&self, at: &Path) -> io::Result<bool> {
        let path = at.to_owned();
        let make = move || {
            let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
            match rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR) {
                // The last two errors do not concern the file system, so they must not keep a pod from starting.
                Ok(_) | Err(Errno::NOSPC | Errno::DQUOT | Errno::OPNOTSUPP | Errno::PERM | Errno::ACCESS) => Ok(true),
                Err(Errno::ROFS | Errno::IO | Errno::UCLEAN | Errno::SHUTDOWN) => Ok(false),
                Err(error) => Err(io::Error::from(error)),
            }
        };
        // Use a place other than `at`, which NodeUnstageVolume reads before its thaw: a hung check, which only the thaw
        // ends, would block that read.
        let place = at.join("(an unnamed file)");
        bounded::reading("creating", &place, make).await
    }
}

/// Reads only the kernel's memory, never the disk.
async fn counted_errors(config: &MounterConfig, entry: &MountEntry) -> io::Result<Option<CountedErrors>> {
    if !is_ext(entry) {
        return Ok(None);
    }
    let place = config.sys.join("dev/block").join(entry.device.to_string());
    let (at, file_systems) = (place.clone(), config.sys.join("fs/ext4"));
    bounded::reading("reading the error counters in", &place, move || counted(&at, &file_systems)).await
}

/// The ext4 driver also mounts ext2 and ext3, and records their errors in the same places.
fn is_ext(entry: &MountEntry) -> bool {
    matches!(entry.fs_type.as_str(), "ext2" | "ext3" | "ext4")
}

fn counted(device: &Path, file_systems: &Path) -> io::Result<Option<CountedErrors>> {
    let Some(directory) = if_exists(device.canonicalize())? else { return Ok(None) };
    let of_it = file_systems.join(directory.file_name().unwrap_or(OsStr::new("")));
    let Some(count) = attribute(&of_it.join("errors_count"))? else { return Ok(None) };
    let count =
        count.parse().map_err(|_| io::Error::other(format!("the kernel reports the invalid error count {count:?}")))?;
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
    use crate::path::NodePath;

    #[test]
    fn full_file_system_is_writable_and_read_only_one_is_not() {
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
    fn errors_are_read_from_the_file_system_of_the_device() {
        let sys = tempfile::tempdir().unwrap();
        let at = |path: &str| sys.path().join(path);
        let (device, file_systems) = (at("block/nvme1n1"), at("fs/ext4"));
        let write = |name: &str, text: &str| {
            std::fs::create_dir_all(at("fs/ext4/nvme1n1")).unwrap();
            std::fs::write(at("fs/ext4/nvme1n1").join(name), text).unwrap();
        };
        assert_eq!(counted(&device, &file_systems).unwrap(), None, "no such device");
        std::fs::create_dir_all(&device).unwrap();
        assert_eq!(counted(&device, &file_systems).unwrap(), None, "the kernel has no count for it");
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
