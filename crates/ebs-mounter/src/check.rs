//! Runs e2fsck if the superblock, the journal or the kernel requires it. XFS repairs itself from its log at mount.
//! Decision: `docs/dev/decisions/0021-repair-only-what-needs-no-decision.md`.

use std::io;
use std::sync::Arc;

use crate::bounded;
use crate::device::Device;
use crate::mounter::Mounter;
use crate::os;
use crate::probe::{Area, ExtSuperblock, Superblock, has_recorded_error, read_superblock};
use crate::tools::memory::{BlockMaps, e2fsck_conf_in};
use crate::tools::{Call, Finished, Program, ToolError};

/// Bits of e2fsck's exit code.
const CORRECTED: i32 = 1;
const CORRECTED_REBOOT: i32 = 2;
const UNCORRECTED: i32 = 4;

/// Why a file system must not be mounted or resized.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// e2fsck found errors whose repair requires a person's decision.
    #[error(
        "the file system has errors that need a manual repair; run e2fsck by hand (the automatic check printed: {0})"
    )]
    Uncorrected(String),
    #[error("check the file system")]
    Tool(#[from] ToolError),
    /// A signal killed e2fsck, which may have left a repair half done.
    #[error("the check of the file system was interrupted, possibly during a repair")]
    Interrupted(#[source] ToolError),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Clean,
    Corrected,
    Uncorrected,
    NotChecked,
}

/// Interprets the exit code, which is a bit mask. Any combination with "errors left uncorrected" counts as uncorrected.
fn verdict_of(code: Option<i32>) -> Verdict {
    match code {
        Some(0) => Verdict::Clean,
        Some(code) if code & UNCORRECTED != 0 => Verdict::Uncorrected,
        Some(code) if code & !(CORRECTED | CORRECTED_REBOOT) == 0 => Verdict::Corrected,
        _ => Verdict::NotChecked,
    }
}

/// How thoroughly e2fsck checks. It never makes a decision that a person must make: it gets `-p`, not `-y`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    AsRecorded,
    Full,
}

impl Depth {
    fn flags(self) -> &'static [&'static str] {
        match self {
            Self::AsRecorded => &["-p"],
            Self::Full => &["-f", "-p"],
        }
    }
}

impl Mounter {
    /// Checks and repairs an unmounted ext file system if its superblock or journal requires it.
    pub async fn check_if_needed(&self, device: &Device, superblock: &Superblock) -> Result<(), CheckError> {
        let Superblock::Ext(ext) = superblock else { return Ok(()) };
        if self.needs_check(device, ext).await { self.check(device).await } else { Ok(()) }
    }

    /// True if the superblock or journal of an unmounted ext file system requires a check.
    pub async fn needs_check(&self, device: &Device, superblock: &ExtSuperblock) -> bool {
        superblock.needs_check() || journal_has_error(device, superblock).await
    }

    /// Checks and repairs an unmounted ext file system as its superblock and journal require. Never kills e2fsck.
    pub async fn check(&self, device: &Device) -> Result<(), CheckError> {
        self.run_check(device, Depth::AsRecorded).await
    }

    /// Like [`Mounter::check`], but always checks the whole file system, as resize2fs requires before growth.
    pub async fn check_in_full(&self, device: &Device) -> Result<(), CheckError> {
        self.run_check(device, Depth::Full).await
    }

    /// True if an ext file system has recorded errors. If it is mounted, reads the kernel's copy of the superblock.
    pub async fn has_error_state(&self, device: &Device) -> io::Result<bool> {
        let superblock = superblock_now(device).await?;
        Ok(matches!(superblock, Some(Superblock::Ext(ext)) if ext.has_error_state()))
    }

    async fn run_check(&self, device: &Device, depth: Depth) -> Result<(), CheckError> {
        let blocks = match superblock_now(device).await {
            Ok(Some(Superblock::Ext(ext))) => ext.blocks(),
            // Let e2fsck decide.
            Ok(Some(Superblock::Xfs(_)) | None) | Err(_) => 0,
        };
        let maps = BlockMaps::for_blocks(blocks);
        tracing::info!(volume = %device.volume(), device = %device.path().display(), ?depth, ?maps, "checking the file system");
        let ended = self.e2fsck(device, depth, maps).await?;
        if !(ended.was_killed() && maps == BlockMaps::Trees) {
            return conclude(ended);
        }
        let maps = BlockMaps::Bits;
        tracing::warn!(
            volume = %device.volume(), ending = ended.ending(), ?maps,
            "checking the file system again with less memory"
        );
        conclude(self.e2fsck(device, depth, maps).await?)
    }

    async fn e2fsck(&self, device: &Device, depth: Depth, maps: BlockMaps) -> Result<Finished, ToolError> {
        let args = depth.flags().iter().map(std::ffi::OsStr::new).chain([device.path().as_os_str()]);
        let call = Call::new(Program::E2fsck, args);
        let call = match maps {
            BlockMaps::Bits => call.env("E2FSCK_CONFIG", e2fsck_conf_in(&self.config.state_dir)),
            BlockMaps::Trees => call,
        };
        self.tools.change(call).await
    }
}

/// Treats an unreadable journal as one without errors, because the mount reads it too and then reveals the error.
async fn journal_has_error(device: &Device, superblock: &ExtSuperblock) -> bool {
    let (held, superblock) = (Arc::clone(device.file()), superblock.clone());
    let read = move || has_recorded_error(&Area::new(&*held, os::block_size(&held)?), &superblock);
    bounded::reading("reading the journal of", device.path(), read).await.unwrap_or_else(|error| {
        tracing::warn!(
            volume = %device.volume(), device = %device.path().display(), %error,
            "failed to read the journal"
        );
        false
    })
}

async fn superblock_now(device: &Device) -> io::Result<Option<Superblock>> {
    let held = Arc::clone(device.file());
    let read = move || read_superblock(&Area::new(&*held, os::block_size(&held)?));
    bounded::reading("reading the superblock of", device.path(), read).await
}

fn conclude(ended: Finished) -> Result<(), CheckError> {
    match verdict_of(ended.code()) {
        Verdict::Clean => Ok(()),
        Verdict::Corrected => {
            tracing::warn!(output = %ended.output, "{} repaired the file system", ended.program);
            Ok(())
        }
        Verdict::Uncorrected => Err(CheckError::Uncorrected(ended.output)),
        Verdict::NotChecked if ended.code().is_none() => Err(CheckError::Interrupted(ended.into_error())),
        Verdict::NotChecked => Err(CheckError::Tool(ended.into_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn e2fsck_exit_code_is_interpreted_as_a_mask() {
        for (verdict, codes) in [
            (Verdict::Clean, &[0][..]),
            (Verdict::Corrected, &[1, 2, 3]),
            (Verdict::Uncorrected, &[4, 5, 6, 12]),
            (Verdict::NotChecked, &[8, 9, 16, 32, 128]),
        ] {
            for code in codes {
                assert_eq!(verdict_of(Some(*code)), verdict, "{code}");
            }
        }
        assert_eq!(verdict_of(None), Verdict::NotChecked);
    }
}
