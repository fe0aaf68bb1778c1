//! Errors of a mounted ext file system that the kernel has counted (`decisions.md` D-35).
//!
//! It counts them from one check of the file system to the next, over mounts too. Some kernels (6.12 to 6.14, and older ones that
//! took over the same change) end all writes after an error of the journal and show it nowhere else: their mount table says `rw`.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;

use crate::bounded;
use crate::device::attribute;
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

impl Mounter {
    /// The errors that the kernel has counted of the file system of a mount; `None`: none, or it counts none of this kind.
    /// Only the kernel's memory is looked at, never the disk.
    ///
    /// # Errors
    /// What sysfs says, also that the look hangs.
    pub async fn counted_errors(&self, entry: &MountEntry) -> io::Result<Option<CountedErrors>> {
        // The driver for ext4 mounts ext2 and ext3 too, and counts for them in the same place.
        if !matches!(entry.fs_type.as_str(), "ext2" | "ext3" | "ext4") {
            return Ok(None);
        }
        let place = self.config.sys.join("dev/block").join(entry.device.to_string());
        let (at, file_systems) = (place.clone(), self.config.sys.join("fs/ext4"));
        bounded::reading("reading the counted errors", &place, move || counted(&at, &file_systems)).await
    }
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
    use super::*;

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
