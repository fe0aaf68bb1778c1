//! Finds and removes what a run has left on the machine. The directory of the run identifies these leftovers: mounts
//! below the directory, loop devices with a backing file in it, and links in `/dev/disk/by-id` to those devices.
//! Nothing else is ever touched.

use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use anyhow::Context;
use rustix::mount::UnmountFlags;

use crate::loop_device::{LOSETUP, TOOL_BOUND, backing_of};
use crate::process::run_tool;

const BY_ID: &str = "/dev/disk/by-id";
const LINK_PREFIX: &str = "nvme-Amazon_Elastic_Block_Store_";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoopLeft {
    pub device: PathBuf,
    /// The path of the backing file, as the kernel reports it.
    pub backing: PathBuf,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leftovers {
    /// Mount points, in the order of the mount table.
    pub mounts: Vec<PathBuf>,
    pub loops: Vec<LoopLeft>,
    /// Links in `/dev/disk/by-id` that lead to the leftover loop devices or are dangling.
    pub links: Vec<PathBuf>,
}

impl Leftovers {
    pub fn below(dir: &Path) -> anyhow::Result<Self> {
        let dir = match dir.canonicalize() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => dir.to_owned(),
            other => other.with_context(|| format!("resolve {}", dir.display()))?,
        };
        let mountinfo = fs::read("/proc/thread-self/mountinfo").context("read /proc/thread-self/mountinfo")?;
        let mounts = mount_points(&mountinfo).into_iter().filter(|point| point.starts_with(&dir)).collect();
        let loops = loops_below(&dir).context("read the loop devices in /sys/block")?;
        let links = links_of(&dir, &loops).with_context(|| format!("read {BY_ID}"))?;
        Ok(Self { mounts, loops, links })
    }

    pub fn is_empty(&self) -> bool {
        self.mounts.is_empty() && self.loops.is_empty() && self.links.is_empty()
    }

    /// Removes mounts (newest first), links and loop devices without waiting: the kernel detaches a device in use after
    /// its last user has closed it. For tests that panic, which cannot await anything.
    pub fn release(&self) -> anyhow::Result<()> {
        let mut first = Ok(());
        for point in self.mounts.iter().rev() {
            first = first.and(unmount(point));
        }
        for link in &self.links {
            first = first.and(remove_link(link));
        }
        for left in &self.loops {
            first = first.and(left.detach());
        }
        first
    }

    /// Finds the leftovers below a directory, removes them, and returns them.
    pub fn release_below(dir: &Path) -> anyhow::Result<Self> {
        let found = Self::below(dir)?;
        found.release()?;
        Ok(found)
    }
}

impl fmt::Display for Leftovers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_empty() {
            return f.write_str("nothing");
        }
        let mut parts: Vec<String> = self.mounts.iter().map(|m| format!("mount {}", m.display())).collect();
        parts.extend(self.loops.iter().map(|l| format!("{} on {}", l.device.display(), l.backing.display())));
        parts.extend(self.links.iter().map(|l| format!("link {}", l.display())));
        f.write_str(&parts.join(", "))
    }
}

fn unmount(point: &Path) -> anyhow::Result<()> {
    match rustix::mount::unmount(point, UnmountFlags::NOFOLLOW) {
        Ok(()) | Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOENT) => Ok(()),
        // A process has a file open below the mount point, so detach lazily: the kernel unmounts when the file is
        // closed.
        Err(rustix::io::Errno::BUSY) => rustix::mount::unmount(point, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
            .with_context(|| format!("unmount {}", point.display())),
        Err(error) => Err(error).with_context(|| format!("unmount {}", point.display())),
    }
}

fn remove_link(link: &Path) -> anyhow::Result<()> {
    match fs::remove_file(link) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", link.display()))
        }
        _ => Ok(()),
    }
}

impl LoopLeft {
    /// Detaches the device unless it has another backing file now. Blocks while losetup runs.
    fn detach(&self) -> anyhow::Result<()> {
        if !self.is_there() {
            return Ok(());
        }
        run_tool(LOSETUP, &["--detach", &self.device.to_string_lossy()], TOOL_BOUND).map(drop)
    }

    fn is_there(&self) -> bool {
        backing_of(&self.device).as_ref() == Some(&self.backing)
    }
}

fn loops_below(dir: &Path) -> io::Result<Vec<LoopLeft>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/sys/block")? {
        let entry = entry?;
        if !entry.file_name().as_bytes().starts_with(b"loop") {
            continue;
        }
        if let Some(backing) = backing_of(&entry.path()).filter(|backing| backing.starts_with(dir)) {
            found.push(LoopLeft { device: Path::new("/dev").join(entry.file_name()), backing });
        }
    }
    found.sort_by(|a, b| a.device.cmp(&b.device));
    Ok(found)
}

/// Returns the links that name a volume whose file is or was below `dir`, and that lead to one of `loops` or are
/// dangling. The target alone is not enough: a link for a volume of another run may still lead to a device that is now
/// one of `loops`.
fn links_of(dir: &Path, loops: &[LoopLeft]) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(BY_ID) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut names = backing_names(dir, 4);
    names.extend(loops.iter().filter_map(|left| serial_of(left.backing.file_name()?.to_str()?)));
    let mut links = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if !name.strip_prefix(LINK_PREFIX).is_some_and(|serial| names.contains(serial)) {
            continue;
        }
        let Ok(target) = fs::read_link(&path) else { continue };
        let target = Path::new("/dev").join(target.file_name().unwrap_or_default());
        let ours = loops.iter().any(|left| left.device == target);
        let dangling = backing_of(&target).is_none();
        if ours || dangling {
            links.push(path);
        }
    }
    links.sort();
    Ok(links)
}

/// Returns the serial numbers (`vol0abc`) that belong to backing files (`vol-0abc.img`) below `dir`. Ids are random for
/// each state directory, so such a name proves ownership.
fn backing_names(dir: &Path, depth: u32) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let Ok(entries) = fs::read_dir(dir) else { return names };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && depth > 0 && name != "staging" && name != "pods" {
            names.extend(backing_names(&entry.path(), depth - 1));
        } else {
            names.extend(serial_of(&name));
        }
    }
    names
}

fn serial_of(file: &str) -> Option<String> {
    let id = file.strip_suffix(".img").filter(|id| id.starts_with("vol-"))?;
    Some(id.replace('-', ""))
}

pub fn mount_points(mountinfo: &[u8]) -> Vec<PathBuf> {
    mountinfo
        .split(|byte| *byte == b'\n')
        .filter_map(|line| line.split(|byte| *byte == b' ').nth(4))
        .map(|field| PathBuf::from(std::ffi::OsString::from_vec(unescape(field))))
        .collect()
}

/// Decodes the kernel's octal escapes (`\040` for a space).
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((byte, tail)) = rest.split_first() {
        let octal = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match octal.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) if *byte == b'\\' => {
                out.push(value);
                rest = &tail[3..];
            }
            _ => {
                out.push(*byte);
                rest = tail;
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mount_point_with_an_escaped_space_is_decoded() {
        let table = b"36 35 98:0 / /mnt/a\\040b rw shared:1 - ext4 /dev/x rw\n37 35 0:1 / /proc rw - proc proc rw\n";
        assert_eq!(mount_points(table), [PathBuf::from("/mnt/a b"), PathBuf::from("/proc")]);
    }
}
