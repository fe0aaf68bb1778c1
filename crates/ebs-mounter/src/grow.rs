//! Growing a file system to its device, only when the sizes say that it is smaller (`decisions.md` D-36).

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
use crate::probe::{Area, Contents, Superblock, read_superblock};
use crate::stats::Counts;
use crate::tool::{Call, Program, ToolError};

/// A file system that is smaller than its device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Growth {
    /// Bytes of the file system.
    pub from: u64,
    /// Bytes of the device.
    pub to: u64,
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "from {} to {} bytes", self.from, self.to)
    }
}

/// Why a file system has not grown.
#[derive(Debug, thiserror::Error)]
pub enum GrowError {
    /// The sizes are not known.
    #[error("the sizes of {device} and its file system cannot be read")]
    Sizes { device: String, source: io::Error },
    /// What is mounted is none of ours, or not what the superblock says.
    #[error("{device} holds no {fs_type} superblock although it is mounted as one")]
    NoSuperblock {
        device: String,
        /// What the mount table says.
        fs_type: FsType,
    },
    /// The check that must come first failed.
    #[error("the file system must be checked before it can grow")]
    Check(#[from] CheckError),
    #[error("the file system could not be grown")]
    Tool(#[from] ToolError),
    /// The tool reported success.
    #[error(
        "{program} reported success, but the file system on {device} has {now} bytes of the {wanted} that it could have (before: {before})"
    )]
    NotGrown {
        program: &'static str,
        device: String,
        /// Bytes before.
        before: u64,
        /// Bytes afterwards.
        now: u64,
        /// Bytes of the device.
        wanted: u64,
    },
}

impl Mounter {
    /// Whether a file system that is not mounted is smaller than its device.
    ///
    /// # Errors
    /// [`GrowError::Sizes`].
    pub async fn growth_of_unmounted(
        &self,
        device: &Device,
        superblock: &Superblock,
    ) -> Result<Option<Growth>, GrowError> {
        let to = device.size().await.map_err(|source| sizes(device, source))?.0;
        Ok(growth(superblock.bytes(), to, superblock.growth_step()))
    }

    /// Whether a mounted file system is smaller than its device. Of xfs the kernel is asked: what it writes to the disk
    /// lags behind.
    ///
    /// # Errors
    /// [`GrowError::Sizes`], [`GrowError::NoSuperblock`].
    pub async fn growth_of_mounted(
        &self,
        device: &Device,
        at: &Path,
        fs_type: FsType,
    ) -> Result<Option<Growth>, GrowError> {
        let failed = |source| sizes(device, source);
        let to = device.size().await.map_err(failed)?.0;
        let held = Arc::clone(device.file());
        let look = move || read_superblock(&Area::new(&*held, to));
        let superblock = bounded::reading("reading", device.path(), look).await.map_err(failed)?;
        let from = match &superblock {
            Some(Superblock::Xfs(xfs)) if fs_type == FsType::Xfs => {
                let counts = Counts::read(at).await.map_err(failed)?;
                counts.blocks.saturating_mul(counts.block_size).saturating_add(xfs.log_bytes())
            }
            Some(Superblock::Ext(ext)) if fs_type.is_ext() => ext.bytes(),
            _ => return Err(GrowError::NoSuperblock { device: device.path().display().to_string(), fs_type }),
        };
        Ok(growth(from, to, superblock.map_or(0, |superblock| superblock.growth_step())))
    }

    /// True when a mounted file system of this type can grow: xfs always, ext when the kernel lets this process.
    pub fn can_grow_mounted(&self, fs_type: FsType) -> bool {
        fs_type == FsType::Xfs || os::may_resize_mounted_ext()
    }

    /// Grows a mounted file system to its device, as it was measured, and measures again.
    ///
    /// Cancellation: the tool is never killed.
    ///
    /// # Errors
    /// [`GrowError::Tool`]; [`GrowError::NotGrown`] when there is still room that the tool should have used; those of
    /// [`Mounter::growth_of_mounted`].
    pub async fn grow_mounted(
        &self,
        device: &Device,
        at: &Path,
        fs_type: FsType,
        growth: Growth,
    ) -> Result<(), GrowError> {
        let call = match fs_type {
            FsType::Xfs => Call::new(Program::XfsGrowfs, [std::ffi::OsStr::new("-d"), at.as_os_str()]),
            FsType::Ext2 | FsType::Ext3 | FsType::Ext4 => Call::new(Program::Resize2fs, [device.path().as_os_str()]),
        };
        tracing::info!(volume = %device.volume(), at = %at.display(), fs = %fs_type, "growing the mounted file system");
        let program = call.program.name();
        self.tools.change(call).await?.successful()?;
        let left = self.growth_of_mounted(device, at, fs_type).await?;
        has_grown(program, device, growth, left)
    }

    /// Grows an ext file system that nobody has mounted: a full check, then resize2fs.
    ///
    /// Cancellation: the tools are never killed.
    ///
    /// # Errors
    /// [`GrowError::Check`], [`GrowError::Tool`], [`GrowError::NotGrown`].
    pub async fn grow_unmounted_ext(&self, device: &Device, growth: Growth) -> Result<(), GrowError> {
        tracing::info!(volume = %device.volume(), device = %device.path().display(), "growing the file system before it is mounted");
        self.check_in_full(device).await?;
        self.tools.change(Call::new(Program::Resize2fs, [device.path().as_os_str()])).await?.successful()?;
        let failed = |source| sizes(device, source);
        let superblock = match self.probe_again(device).await.map_err(|error| failed(io::Error::other(error)))? {
            Contents::Filesystem(superblock) => superblock,
            other => return Err(failed(io::Error::other(format!("it holds {other} after it has grown")))),
        };
        let left = self.growth_of_unmounted(device, &superblock).await?;
        has_grown(Program::Resize2fs.name(), device, growth, left)
    }
}

/// Whether a tool has done what it was started for. A device that has grown further meanwhile is another growth.
fn has_grown(program: &'static str, device: &Device, wanted: Growth, left: Option<Growth>) -> Result<(), GrowError> {
    match left {
        Some(left) if left.to <= wanted.to => Err(GrowError::NotGrown {
            program,
            device: device.path().display().to_string(),
            before: wanted.from,
            now: left.from,
            wanted: wanted.to,
        }),
        Some(_) | None => Ok(()),
    }
}

fn sizes(device: &Device, source: io::Error) -> GrowError {
    GrowError::Sizes { device: device.path().display().to_string(), source }
}

/// Growth that is worth a tool.
fn growth(from: u64, to: u64, step: u64) -> Option<Growth> {
    (from.checked_add(step).is_some_and(|least| least <= to)).then_some(Growth { from, to })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the tools would leave unused is no growth.
    ///
    /// Rule: D-36
    #[test]
    fn what_the_tools_would_leave_unused_is_no_growth() {
        let step = 32 << 20;
        assert_eq!(growth(1 << 30, 1 << 30, step), None);
        assert_eq!(growth(1 << 30, (1 << 30) + step - 1, step), None);
        assert_eq!(growth(1 << 30, 2 << 30, step), Some(Growth { from: 1 << 30, to: 2 << 30 }));
        assert_eq!(growth(2 << 30, 1 << 30, step), None);
    }

    /// Without CAP_SYS_RESOURCE a mounted xfs can grow and a mounted ext cannot.
    ///
    /// Rule: D-36
    #[test]
    fn without_cap_sys_resource_a_mounted_xfs_can_grow_and_a_mounted_ext_cannot() {
        let state = tempfile::tempdir().unwrap();
        let mounter = Mounter::new(crate::mounter::MounterConfig::new(state.path())).unwrap();
        // Each thread has its own capabilities, and this one ends with the test.
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
