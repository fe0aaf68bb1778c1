//! The kernel's information about loop devices, from sysfs.

use std::io;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Connected {
    pub(super) name: String,
    /// The backing file of the loop device. It may have been deleted.
    pub(super) file: PathBuf,
}

impl Connected {
    pub(super) fn device(&self) -> PathBuf {
        Path::new("/dev").join(&self.name)
    }
}

/// Returns every connected loop device of the machine whose file is directly in `dir`.
pub(super) fn connected_below(dir: &Path) -> io::Result<Vec<Connected>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/sys/block")? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        if !name.starts_with("loop") {
            continue;
        }
        if let Some(file) = file_of(&name).filter(|file| file.parent() == Some(dir)) {
            found.push(Connected { name, file });
        }
    }
    Ok(found)
}

/// Returns the file of a loop device, or `None` when it is not connected.
pub(super) fn file_of(name: &str) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/sys/block/{name}/loop/backing_file")).ok()?;
    let path = text.trim_end_matches('\n');
    Some(PathBuf::from(path.strip_suffix(" (deleted)").unwrap_or(path)))
}

/// Returns whether the device was disconnected while in use, so that it disappears when its last user closes it.
pub(super) fn goes_with_last_user(name: &str) -> bool {
    std::fs::read_to_string(format!("/sys/block/{name}/loop/autoclear")).is_ok_and(|flag| flag.trim() == "1")
}

/// Returns counters that change with every completed write or discard.
pub(super) fn writes(name: &str) -> io::Result<Vec<u64>> {
    let text = std::fs::read_to_string(format!("/sys/block/{name}/stat"))?;
    let numbers: Vec<u64> = text.split_whitespace().filter_map(|n| n.parse().ok()).collect();
    // Numbers of writes, written sectors, discards and discarded sectors. Old kernels do not count discards.
    Ok([4, 6, 11, 13].iter().filter_map(|at| numbers.get(*at).copied()).collect())
}
