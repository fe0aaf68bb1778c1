//! Memory of children: a tool that runs short of it ends alone and takes neither the driver nor other tools with it.
//!
//! Children share the memory limit of the driver's container. When it is reached, the kernel kills the process with the highest
//! score, which is a child; unless the cgroup is one group for the kernel, as the kubelet makes a container on cgroup v2 since
//! Kubernetes 1.28: then it kills them all.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The highest score: this process is killed first.
const FIRST_VICTIM: &str = "1000";
const E2FSCK_CONF_NAME: &str = "e2fsck.conf";
/// e2fsck keeps each of its maps as an array of bits (1 in libext2fs) instead of a tree with a node for each extent.
const E2FSCK_CONF: &str = "[bitmaps]\n\tall = 1\n";
/// Up to so many blocks (1 TiB of 4 KiB) an array has at most 32 MiB.
const MAX_BLOCKS_AS_BITS: u64 = 1 << 28;

/// How e2fsck keeps its maps of blocks and inodes. A tree takes some 85 bytes for each extent of the file system: little for few
/// large files, more than a container has for millions of small ones. An array takes a bit for each block, whatever is in them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockMaps {
    /// Arrays of bits.
    Bits,
    /// Trees of extents, as e2fsck does by itself.
    Trees,
}

impl BlockMaps {
    /// Arrays where they are small.
    pub(crate) fn for_blocks(blocks: u64) -> Self {
        if blocks <= MAX_BLOCKS_AS_BITS { Self::Bits } else { Self::Trees }
    }
}

/// The e2fsck.conf that makes e2fsck use arrays. Where it could not be written, e2fsck uses trees.
pub(crate) fn e2fsck_conf_in(state_dir: &Path) -> PathBuf {
    state_dir.join(E2FSCK_CONF_NAME)
}

/// Writes our e2fsck.conf unless it is there.
///
/// # Errors
/// When the state directory cannot be written.
pub(crate) fn write_e2fsck_conf(state_dir: &Path) -> io::Result<()> {
    let path = e2fsck_conf_in(state_dir);
    if fs::read(&path).is_ok_and(|there| there == E2FSCK_CONF.as_bytes()) {
        return Ok(());
    }
    // A check that starts meanwhile reads the whole file or none.
    let new = path.with_extension("conf-new");
    fs::write(&new, E2FSCK_CONF)?;
    fs::rename(new, path)
}

/// Makes a child the process that the kernel kills first when memory runs short. A process may always raise its own children's
/// score; one that has ended needs none.
pub(crate) fn prefer_as_victim(child: u32) {
    let path = format!("/proc/{child}/oom_score_adj");
    match fs::write(&path, FIRST_VICTIM) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(libc::ESRCH) => {
            tracing::warn!(path, %error, "the kernel may kill the driver instead of this tool when memory runs short");
        }
        _ => {}
    }
}

/// The container of this process, as far as the kernel treats it as one when memory runs short.
#[derive(Debug, Clone)]
pub(crate) struct Container {
    /// Where the cgroup file system is.
    cgroups: PathBuf,
    /// It was logged that the kernel's treatment cannot be changed.
    has_warned: Arc<AtomicBool>,
}

impl Container {
    pub(crate) fn new(cgroups: PathBuf) -> Self {
        Self { cgroups, has_warned: Arc::default() }
    }

    /// Tells the kernel to kill only the process that it chooses. Called before each tool: the kubelet may set
    /// `memory.oom.group` again when it changes the limits of a running container.
    pub(crate) fn end_tools_alone(&self) {
        match self.clear_group() {
            Ok(true) => {
                tracing::info!("a tool that runs short of memory ends alone: the container's memory.oom.group is 0 now")
            }
            Ok(false) => {}
            Err(error) if !self.has_warned.swap(true, Ordering::Relaxed) => {
                tracing::warn!(%error, "a tool that runs short of memory ends the driver too: the container's memory.oom.group cannot be set to 0");
            }
            Err(_) => {}
        }
    }

    /// True when the setting was on; false when there was nothing to change.
    fn clear_group(&self) -> io::Result<bool> {
        let Ok(list) = fs::read_to_string("/proc/self/cgroup") else { return Ok(false) };
        let Some(own) = own_cgroup(&self.cgroups, &list, std::process::id()) else { return Ok(false) };
        let group = own.join("memory.oom.group");
        match fs::read_to_string(&group) {
            Ok(text) if text.trim() == "1" => fs::write(&group, "0").map(|()| true),
            Ok(_) => Ok(false),
            // cgroup v1, the root, or Linux before 4.19: the kernel kills one process.
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// The cgroup v2 directory of a process, by its list of cgroups. In a container the file system may begin at the container's own
/// cgroup while the list counts from the machine's root; the directory that lists the process is the right one.
fn own_cgroup(cgroups: &Path, list: &str, process: u32) -> Option<PathBuf> {
    let path = list.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let holds = |directory: &PathBuf| {
        let processes = fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default();
        processes.lines().any(|line| line.parse() == Ok(process))
    };
    [cgroups.join(path), cgroups.to_owned()].into_iter().find(holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_arrays_up_to_1_tib() {
        assert_eq!(BlockMaps::for_blocks(0), BlockMaps::Bits);
        assert_eq!(BlockMaps::for_blocks((1 << 40) / 4096), BlockMaps::Bits);
        assert_eq!(BlockMaps::for_blocks((1 << 40) / 4096 + 1), BlockMaps::Trees);
    }

    #[test]
    fn an_e2fsck_conf_of_others_is_replaced() {
        let state = tempfile::tempdir().unwrap();
        for _ in 0..2 {
            write_e2fsck_conf(state.path()).unwrap();
            assert_eq!(fs::read_to_string(e2fsck_conf_in(state.path())).unwrap(), E2FSCK_CONF);
        }
        fs::write(e2fsck_conf_in(state.path()), "[options]\n").unwrap();
        write_e2fsck_conf(state.path()).unwrap();
        assert_eq!(fs::read_to_string(e2fsck_conf_in(state.path())).unwrap(), E2FSCK_CONF);
        assert_eq!(fs::read_dir(state.path()).unwrap().count(), 1);
        assert!(write_e2fsck_conf(&state.path().join("missing")).is_err());
    }

    #[test]
    fn the_own_cgroup_is_the_one_that_lists_the_process() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let list = "8:pids:/x\n0::/kubepods/pod1/driver\n";
        assert_eq!(own_cgroup(root.path(), list, 7), None, "nothing lists it");
        // The file system begins at the container's cgroup.
        fs::write(at("cgroup.procs"), "7\n12\n").unwrap();
        assert_eq!(own_cgroup(root.path(), list, 7), Some(root.path().to_owned()));
        assert_eq!(own_cgroup(root.path(), list, 1), None);
        // It begins at the machine's root.
        fs::create_dir_all(at("kubepods/pod1/driver")).unwrap();
        fs::write(at("kubepods/pod1/driver/cgroup.procs"), "7\n").unwrap();
        assert_eq!(own_cgroup(root.path(), list, 7), Some(at("kubepods/pod1/driver")));
        assert_eq!(own_cgroup(root.path(), "8:pids:/x\n", 7), None, "no cgroup v2");
    }

    #[test]
    fn a_container_that_the_kernel_kills_as_a_whole_is_so_no_more() {
        let root = tempfile::tempdir().unwrap();
        let container = Container::new(root.path().to_owned());
        let group = root.path().join("memory.oom.group");
        assert!(!container.clear_group().unwrap(), "another cgroup");
        fs::write(root.path().join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        assert!(!container.clear_group().unwrap(), "cgroup v1");
        // Where the kernel has no cgroup v2 at all, a process has none of its own.
        let has_v2 = fs::read_to_string("/proc/self/cgroup").unwrap().lines().any(|line| line.starts_with("0::"));
        for _ in 0..2 {
            fs::write(&group, "1\n").unwrap();
            assert_eq!(container.clear_group().unwrap(), has_v2);
            assert_eq!(fs::read_to_string(&group).unwrap().trim() == "0", has_v2);
            assert!(!has_v2 || !container.clear_group().unwrap());
        }
    }
}
