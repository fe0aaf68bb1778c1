//! Makes the kernel end only the tool that uses too much memory, not the driver. Children share the memory limit of the
//! driver's container. At the limit, the kernel kills the process with the highest score, or all processes of the
//! cgroup if the cgroup is an OOM group. The kubelet configures OOM groups on cgroup v2 since Kubernetes 1.28.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::os::if_exists;

/// The maximum score, so that the kernel kills this process first.
const MAX_OOM_SCORE: &str = "1000";
const E2FSCK_CONF_NAME: &str = "e2fsck.conf";
/// Makes e2fsck store each of its maps as a bit array (1 in libext2fs) instead of a tree with a node for each extent.
const E2FSCK_CONF: &str = "[bitmaps]\n\tall = 1\n";
/// Up to this number of blocks (1 TiB with 4 KiB blocks), a bit array has at most 32 MiB.
const MAX_BLOCKS_AS_BITS: u64 = 1 << 28;

/// How e2fsck stores its maps of blocks and inodes. A tree uses about 85 bytes for each extent of the file system, so a
/// file system with millions of small files needs more memory than a container has. An array uses one bit for each
/// block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BlockMaps {
    Bits,
    /// Trees of extents, the default of e2fsck.
    Trees,
}

impl BlockMaps {
    pub(crate) fn for_blocks(blocks: u64) -> Self {
        if blocks <= MAX_BLOCKS_AS_BITS { Self::Bits } else { Self::Trees }
    }
}

/// Returns the path of our e2fsck.conf, which selects bit arrays. If it could not be written, e2fsck uses trees.
pub(crate) fn e2fsck_conf_in(state_dir: &Path) -> PathBuf {
    state_dir.join(E2FSCK_CONF_NAME)
}

pub(crate) fn write_e2fsck_conf(state_dir: &Path) -> io::Result<()> {
    let path = e2fsck_conf_in(state_dir);
    if fs::read(&path).is_ok_and(|there| there == E2FSCK_CONF.as_bytes()) {
        return Ok(());
    }
    // The rename is atomic, so a concurrent check reads either the whole file or no file.
    let new = path.with_extension("conf-new");
    fs::write(&new, E2FSCK_CONF)?;
    fs::rename(new, path)
}

/// Makes the kernel kill this child first when memory runs out. Ignores a child that has ended.
pub(crate) fn raise_oom_score(child: u32) {
    let path = format!("/proc/{child}/oom_score_adj");
    match fs::write(&path, MAX_OOM_SCORE) {
        Err(error) if error.kind() != io::ErrorKind::NotFound && error.raw_os_error() != Some(libc::ESRCH) => {
            tracing::warn!(
                path, %error,
                "failed to raise the tool's oom_score_adj: the kernel may kill the driver first when memory runs out"
            );
        }
        _ => {}
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Container {
    cgroups: PathBuf,
    has_warned: Arc<AtomicBool>,
}

impl Container {
    pub(crate) fn new(cgroups: PathBuf) -> Self {
        Self { cgroups, has_warned: Arc::default() }
    }

    /// Makes the kernel kill only the process that it selects. Called before each tool, because the kubelet may set
    /// `memory.oom.group` again when it changes the limits of a running container.
    pub(crate) fn clear_oom_group(&self) {
        match self.clear_group() {
            Ok(true) => {
                tracing::info!(
                    "set the container's memory.oom.group to 0, so running out of memory kills only the tool"
                )
            }
            Ok(false) => {}
            Err(error) if !self.has_warned.swap(true, Ordering::Relaxed) => {
                tracing::warn!(
                    %error,
                    "failed to set the container's memory.oom.group to 0: a tool that runs out of memory kills the \
                     driver too"
                );
            }
            Err(_) => {}
        }
    }

    fn clear_group(&self) -> io::Result<bool> {
        let Ok(list) = fs::read_to_string("/proc/self/cgroup") else { return Ok(false) };
        let Some(own) = own_cgroup(&self.cgroups, &list, std::process::id()) else { return Ok(false) };
        let group = own.join("memory.oom.group");
        // The file is missing on cgroup v1, in the root cgroup and before Linux 4.19. Without it, the kernel kills only
        // a single process.
        let is_group = if_exists(fs::read_to_string(&group))?.is_some_and(|text| text.trim() == "1");
        if is_group { fs::write(&group, "0").map(|()| true) } else { Ok(false) }
    }
}

/// Returns the cgroup v2 directory that contains a process. In a container, the listed paths may begin at the machine's
/// root although the file system begins at the container's cgroup.
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
    fn e2fsck_uses_bit_arrays_up_to_1_tib() {
        assert_eq!(BlockMaps::for_blocks(0), BlockMaps::Bits);
        assert_eq!(BlockMaps::for_blocks((1 << 40) / 4096), BlockMaps::Bits);
        assert_eq!(BlockMaps::for_blocks((1 << 40) / 4096 + 1), BlockMaps::Trees);
    }

    #[test]
    fn different_e2fsck_conf_is_replaced() {
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
    fn own_cgroup_is_the_one_that_lists_the_process() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        let list = "8:pids:/x\n0::/kubepods/pod1/driver\n";
        assert_eq!(own_cgroup(root.path(), list, 7), None, "no cgroup lists it");
        // The root of the cgroup file system is the container's cgroup.
        fs::write(at("cgroup.procs"), "7\n12\n").unwrap();
        assert_eq!(own_cgroup(root.path(), list, 7), Some(root.path().to_owned()));
        assert_eq!(own_cgroup(root.path(), list, 1), None);
        // The root of the cgroup file system is the machine's root cgroup.
        fs::create_dir_all(at("kubepods/pod1/driver")).unwrap();
        fs::write(at("kubepods/pod1/driver/cgroup.procs"), "7\n").unwrap();
        assert_eq!(own_cgroup(root.path(), list, 7), Some(at("kubepods/pod1/driver")));
        assert_eq!(own_cgroup(root.path(), "8:pids:/x\n", 7), None, "no cgroup v2");
    }
}
