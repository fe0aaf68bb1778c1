//! Grows a file system that is smaller than its device (`docs/dev/decisions/0020-never-let-growth-decide-access.md`).

use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::path::Path;
use std::sync::Arc;

use crate::bounded;
use crate::check::CheckError;
use crate::device::Device;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::os;
use crate::probe::{Area, Contents, ExtSuperblock, GrowthLimit, Reach, Superblock, probe_again, read_superblock};
use crate::tools::{Call, Program, ToolError};

/// A growth that the tools can perform.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    pub from: u64,
    pub to: u64,
    /// Number of blocks to request from resize2fs; `None` lets it use the whole device.
    blocks: Option<u64>,
    group_bytes: u64,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {} bytes", self.from, self.to)
    }
}

/// The size of a file system compared with its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Headroom {
    pub size: u64,
    pub device: u64,
    /// The growth that the tools can perform; `None` if the tools would not use the rest of the device.
    pub growth: Option<Growth>,
    /// The limit that permanently leaves more than one block group of the device unused.
    pub limit: Option<GrowthLimit>,
    /// True for an ext file system with clusters (bigalloc), which can only grow while it is mounted.
    pub has_clusters: bool,
}

impl Headroom {
    fn new(size: u64, device: u64, reach: &Reach) -> Self {
        let is_worth_a_tool = size.checked_add(reach.least_growth).is_some_and(|least| least <= reach.bytes);
        let growth = Growth { from: size, to: reach.bytes, blocks: reach.blocks, group_bytes: reach.group_bytes };
        Self { size, device, growth: is_worth_a_tool.then_some(growth), limit: reach.limit, has_clusters: false }
    }

    fn of(superblock: &Superblock, device: u64) -> Self {
        let has_clusters = matches!(superblock, Superblock::Ext(ext) if ext.has_clusters());
        Self { has_clusters, ..Self::new(superblock.bytes(), device, &superblock.reach(device)) }
    }

    /// Returns the bytes of the device that the file system does not use.
    #[must_use]
    pub fn unused(&self) -> u64 {
        self.device.saturating_sub(self.size)
    }

    /// True if the file system is as large as its device, except for space that the tools leave unused.
    #[must_use]
    pub fn is_used_up(&self) -> bool {
        self.growth.is_none() && self.limit.is_none()
    }
}

/// Why a file system has not grown.
#[derive(Debug, thiserror::Error)]
pub enum GrowError {
    #[error("read the sizes of {device} and its file system")]
    Sizes { device: String, source: io::Error },
    /// No superblock of `fs_type`: another file system is mounted, or the device has another superblock.
    #[error("{device} has no {fs_type} superblock although it is mounted as {fs_type}")]
    NoSuperblock { device: String, fs_type: FsType },
    /// resize2fs rejects an unmounted file system with clusters unless it is forced. Nothing was started.
    #[error("the file system has clusters (bigalloc) and can grow only while it is mounted")]
    Clusters,
    #[error("check the file system before it grows")]
    Check(#[from] CheckError),
    #[error("grow the file system")]
    Tool(#[from] ToolError),
    /// The tool reported success, but the file system did not grow enough.
    #[error(
        "{program} reported success, but the file system on {device} has {now} bytes instead of {wanted} (before: \
         {before})"
    )]
    NotGrown { program: &'static str, device: String, before: u64, now: u64, wanted: u64 },
}

impl Mounter {
    /// True if this process can grow a mounted file system of this type: xfs always, ext only with CAP_SYS_RESOURCE.
    pub fn can_grow_mounted(&self, fs_type: FsType) -> bool {
        fs_type == FsType::Xfs || os::may_resize_mounted_ext()
    }

    /// Compares an unmounted file system with its device.
    pub async fn headroom_of_unmounted(&self, device: &Device, superblock: &Superblock) -> Result<Headroom, GrowError> {
        let bytes = device.size().await.map_err(|source| sizes(device, source))?.0;
        Ok(Headroom::of(superblock, bytes))
    }

    /// Compares a mounted file system with its device. Asks the kernel, because an xfs superblock may be stale.
    pub async fn headroom_of_mounted(
        &self,
        device: &Device,
        at: &Path,
        fs_type: FsType,
    ) -> Result<Headroom, GrowError> {
        let failed = |source| sizes(device, source);
        let bytes = device.size().await.map_err(failed)?.0;
        let another = || GrowError::NoSuperblock { device: device.path().display().to_string(), fs_type };
        if fs_type == FsType::Xfs {
            let place = at.to_owned();
            let ask = bounded::reading("reading the size of", at, move || os::xfs_data_bytes(&place)).await;
            return match ask {
                Ok(size) => Ok(Headroom::new(size, bytes, &Reach::of_xfs(bytes))),
                Err(error) if error.raw_os_error() == Some(libc::ENOTTY) => Err(another()),
                Err(error) => Err(failed(error)),
            };
        }
        let held = Arc::clone(device.file());
        let read = move || read_superblock(&Area::new(&*held, bytes));
        match bounded::reading("reading", device.path(), read).await.map_err(failed)? {
            Some(superblock @ Superblock::Ext(_)) => Ok(Headroom::of(&superblock, bytes)),
            Some(Superblock::Xfs(_)) | None => Err(another()),
        }
    }

    /// Grows a mounted file system to the measured size. `at` must be a writable mount. The tool is never killed.
    pub async fn grow_mounted(
        &self,
        device: &Device,
        at: &Path,
        fs_type: FsType,
        growth: Growth,
    ) -> Result<(), GrowError> {
        let call = match fs_type {
            FsType::Xfs => Call::new(Program::XfsGrowfs, [OsStr::new("-d"), at.as_os_str()]),
            FsType::Ext2 | FsType::Ext3 | FsType::Ext4 => resize(device, growth),
        };
        tracing::info!(volume = %device.volume(), at = %at.display(), fs = %fs_type, %growth, "growing the mounted file system");
        let program = call.program.name();
        self.tools.change(call).await?.successful()?;
        let left = self.headroom_of_mounted(device, at, fs_type).await?;
        has_grown(program, device, growth, &left)
    }

    /// Checks an unmounted ext file system in full, then runs resize2fs. An interrupted growth leaves a mark in the
    /// superblock, so that the file system is checked before its next mount. The tools are never killed.
    pub async fn grow_unmounted_ext(
        &self,
        device: &Device,
        superblock: &ExtSuperblock,
        growth: Growth,
    ) -> Result<(), GrowError> {
        if superblock.has_clusters() {
            return Err(GrowError::Clusters);
        }
        tracing::info!(volume = %device.volume(), device = %device.path().display(), %growth, "growing the file system before it is mounted");
        self.check_in_full(device).await?;
        self.tools.change(resize(device, growth)).await?.successful()?;
        let failed = |source| sizes(device, source);
        let superblock = match probe_again(device).await.map_err(|error| failed(io::Error::other(error)))? {
            Contents::Filesystem(superblock) => superblock,
            other => return Err(failed(io::Error::other(format!("it contains {other} after the growth")))),
        };
        let left = self.headroom_of_unmounted(device, &superblock).await?;
        has_grown(Program::Resize2fs.name(), device, growth, &left)
    }
}

/// Returns the resize2fs call. It passes a size only if the device is larger than the file system can become, because
/// resize2fs without a size fails on such a device. The call never overrides the checks of resize2fs.
fn resize(device: &Device, growth: Growth) -> Call {
    let blocks = growth.blocks.map(|blocks| OsString::from(blocks.to_string()));
    Call::new(Program::Resize2fs, [device.path().as_os_str().to_owned()].into_iter().chain(blocks))
}

fn has_grown(program: &'static str, device: &Device, wanted: Growth, left: &Headroom) -> Result<(), GrowError> {
    if is_reached(wanted, left) {
        return Ok(());
    }
    Err(GrowError::NotGrown {
        program,
        device: device.path().display().to_string(),
        before: wanted.from,
        now: left.size,
        wanted: wanted.to,
    })
}

/// True if the file system has the requested size, except for less than one group that resize2fs may leave unused.
fn is_reached(wanted: Growth, left: &Headroom) -> bool {
    let unused = wanted.to.saturating_sub(left.size);
    left.growth.is_none() || (left.size > wanted.from && unused < wanted.group_bytes)
}

fn sizes(device: &Device, source: io::Error) -> GrowError {
    GrowError::Sizes { device: device.path().display().to_string(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(bytes: u64) -> Reach {
        Reach { bytes, least_growth: 32 << 20, group_bytes: 128 << 20, blocks: None, limit: None }
    }

    #[test]
    fn space_that_growth_tools_leave_unused_needs_no_growth() {
        let of = |size, device| Headroom::new(size, device, &reach(device));
        let sizes = |headroom: Headroom| headroom.growth.map(|growth| (growth.from, growth.to));
        assert_eq!(sizes(of(1 << 30, 1 << 30)), None);
        assert_eq!(sizes(of(1 << 30, (1 << 30) + (32 << 20) - 1)), None);
        assert_eq!(sizes(of(1 << 30, (1 << 30) + (32 << 20))), Some((1 << 30, (1 << 30) + (32 << 20))));
        assert_eq!(sizes(of(1 << 30, 2 << 30)), Some((1 << 30, 2 << 30)));
        assert_eq!(sizes(of(2 << 30, 1 << 30)), None);
        assert_eq!(sizes(of(u64::MAX, u64::MAX)), None);
        assert!(of(1 << 30, 1 << 30).is_used_up() && !of(1 << 30, 2 << 30).is_used_up());
    }

    #[test]
    fn file_system_at_its_size_limit_still_reports_unused_space() {
        let limited = Reach { limit: Some(GrowthLimit::Inodes), ..reach(1 << 40) };
        let at_it = Headroom::new(1 << 40, 2 << 40, &limited);
        assert_eq!((at_it.growth, at_it.limit, at_it.is_used_up()), (None, Some(GrowthLimit::Inodes), false));
        let below = Headroom::new(1 << 30, 2 << 40, &limited);
        assert_eq!(below.growth.map(|growth| growth.to), Some(1 << 40));
        assert_eq!((at_it.unused(), Headroom::new(2, 1, &limited).unused()), (1 << 40, 0));
    }

    #[test]
    fn growth_counts_as_complete_only_if_the_size_changed() {
        const MIB: u64 = 1 << 20;
        let wanted = |from, to| Growth { from: from * MIB, to: to * MIB, blocks: None, group_bytes: 128 * MIB };
        let left = |size, device| Headroom::new(size * MIB, device * MIB, &reach(device * MIB));
        // The tool reached the requested size, reached it except for part of a group, or reached it before the device
        // grew again.
        assert!(is_reached(wanted(1024, 2048), &left(2048, 2048)));
        assert!(is_reached(wanted(1024, 2048), &left(1984, 2048)));
        assert!(is_reached(wanted(1024, 2048), &left(2048, 4096)));
        // The tool changed nothing: on an unchanged device, when less than a group was missing, or on a device that
        // grew later.
        assert!(!is_reached(wanted(1024, 2048), &left(1024, 2048)));
        assert!(!is_reached(wanted(1024, 1088), &left(1024, 1088)));
        assert!(!is_reached(wanted(1024, 2048), &left(1024, 4096)));
        // The tool left a whole group unused, or stopped halfway.
        assert!(!is_reached(wanted(1024, 2048), &left(1920, 2048)));
        assert!(!is_reached(wanted(1024, 2048), &left(1536, 2048)));
        assert!(!is_reached(wanted(1024, 2048), &left(1536, 4096)));
    }

    #[test]
    fn mounted_ext_needs_cap_sys_resource_to_grow_and_xfs_does_not() {
        // Capabilities belong to a thread, so use a thread that ends with the test.
        let state = tempfile::tempdir().unwrap();
        let mounter = Mounter::new(crate::config::MounterConfig::new(state.path())).unwrap();
        let without = std::thread::spawn(move || {
            let mut sets = rustix::thread::capabilities(None).unwrap();
            sets.effective.remove(rustix::thread::CapabilitySet::SYS_RESOURCE);
            rustix::thread::set_capabilities(None, sets).unwrap();
            assert!(mounter.can_grow_mounted(FsType::Xfs));
            for fs_type in [FsType::Ext2, FsType::Ext3, FsType::Ext4] {
                assert!(!mounter.can_grow_mounted(fs_type), "{fs_type}");
            }
        });
        without.join().unwrap();
    }
}
