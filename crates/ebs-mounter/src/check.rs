//! e2fsck, only where the superblock, the journal or the kernel says that it must run. XFS repairs itself at
//! mount from its log.
//!
//! Decision: `docs/decisions/0021-repair-only-what-needs-no-decision.md`.

use std::io;
use std::sync::Arc;

use crate::bounded;
use crate::device::Device;
use crate::mounter::Mounter;
use crate::os;
use crate::probe::{Area, ExtSuperblock, Superblock, has_recorded_error, read_superblock};
use crate::tool::{Call, Finished, Program, ToolError};
use crate::tool_memory::{BlockMaps, e2fsck_conf_in};

/// Bits of e2fsck's exit code.
const CORRECTED: i32 = 1;
const CORRECTED_REBOOT: i32 = 2;
const UNCORRECTED: i32 = 4;

/// Why a file system is not fit to be mounted or resized.
#[derive(Debug, thiserror::Error)]
pub enum CheckError {
    /// Errors that an automatic repair must not decide about.
    #[error("the file system has errors that cannot be repaired automatically; run e2fsck by hand: {0}")]
    Uncorrected(String),
    /// e2fsck did not do its work.
    #[error("the file system could not be checked")]
    Tool(#[from] ToolError),
    /// A signal ended e2fsck: a repair may be half done.
    #[error("the check of the file system was interrupted, perhaps in the middle of a repair")]
    Interrupted(#[source] ToolError),
}

/// What a check did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Clean,
    Corrected,
    Uncorrected,
    NotChecked,
}

/// The exit code is a mask: a combination with "errors left uncorrected" is that.
fn verdict_of(code: Option<i32>) -> Verdict {
    match code {
        Some(0) => Verdict::Clean,
        Some(code) if code & UNCORRECTED != 0 => Verdict::Uncorrected,
        Some(code) if code & !(CORRECTED | CORRECTED_REBOOT) == 0 => Verdict::Corrected,
        _ => Verdict::NotChecked,
    }
}

/// How thoroughly e2fsck checks. It never decides about anything that a person must decide about: `-p`, not `-y`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// What the superblocks of file system and journal demand.
    AsRecorded,
    /// All of it, whatever they say.
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
    /// Checks and repairs an ext file system whose superblock or journal says that it needs it; starts nothing otherwise. It must
    /// not be mounted.
    ///
    /// # Errors
    /// [`CheckError`].
    pub async fn check_if_needed(&self, device: &Device, superblock: &Superblock) -> Result<(), CheckError> {
        let Superblock::Ext(ext) = superblock else { return Ok(()) };
        if self.needs_check(device, ext).await { self.check(device).await } else { Ok(()) }
    }

    /// True when superblock or journal of an ext file system that is not mounted demand a check.
    pub async fn needs_check(&self, device: &Device, superblock: &ExtSuperblock) -> bool {
        superblock.needs_check() || self.journal_has_error(device, superblock).await
    }

    /// Checks an ext file system as far as its superblock and journal demand, and repairs what needs no decision. It must not be
    /// mounted.
    ///
    /// Cancellation: e2fsck is never killed.
    ///
    /// # Errors
    /// [`CheckError`].
    pub async fn check(&self, device: &Device) -> Result<(), CheckError> {
        self.run_check(device, Depth::AsRecorded).await
    }

    /// As [`Mounter::check`], of the whole file system whatever its superblock says, as resize2fs demands before it grows one.
    ///
    /// # Errors
    /// [`CheckError`].
    pub async fn check_in_full(&self, device: &Device) -> Result<(), CheckError> {
        self.run_check(device, Depth::Full).await
    }

    /// True when the superblock of an ext file system has recorded errors. Of a mounted one, what the kernel has in memory is seen.
    ///
    /// # Errors
    /// What the device answers, also that it does not answer in time.
    pub async fn has_error_state(&self, device: &Device) -> io::Result<bool> {
        let superblock = self.superblock_now(device).await?;
        Ok(matches!(superblock, Some(Superblock::Ext(ext)) if ext.has_error_state()))
    }

    /// A journal that cannot be read is left to the mount, which reads it too.
    async fn journal_has_error(&self, device: &Device, superblock: &ExtSuperblock) -> bool {
        let (held, superblock) = (Arc::clone(device.file()), superblock.clone());
        let look = move || has_recorded_error(&Area::new(&*held, os::block_size(&held)?), &superblock);
        bounded::reading("reading the journal of", device.path(), look).await.unwrap_or_else(|error| {
            tracing::warn!(volume = %device.volume(), device = %device.path().display(), %error, "the journal cannot be read");
            false
        })
    }

    async fn superblock_now(&self, device: &Device) -> io::Result<Option<Superblock>> {
        let held = Arc::clone(device.file());
        let look = move || read_superblock(&Area::new(&*held, os::block_size(&held)?));
        bounded::reading("reading the superblock of", device.path(), look).await
    }

    async fn run_check(&self, device: &Device, depth: Depth) -> Result<(), CheckError> {
        let blocks = match self.superblock_now(device).await {
            Ok(Some(Superblock::Ext(ext))) => ext.blocks(),
            // e2fsck finds out.
            Ok(Some(Superblock::Xfs(_)) | None) | Err(_) => 0,
        };
        let maps = BlockMaps::for_blocks(blocks);
        tracing::info!(volume = %device.volume(), device = %device.path().display(), ?depth, ?maps, "checking the file system");
        let ended = self.e2fsck(device, depth, maps).await?;
        if !(ended.was_killed() && maps == BlockMaps::Trees) {
            return conclude(ended);
        }
        let maps = BlockMaps::Bits;
        tracing::warn!(volume = %device.volume(), ending = ended.ending(), ?maps, "checking again, with less memory");
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

fn conclude(ended: Finished) -> Result<(), CheckError> {
    match verdict_of(ended.code()) {
        Verdict::Clean => Ok(()),
        Verdict::Corrected => {
            tracing::warn!(output = %ended.output, "{} corrected the file system", ended.program());
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

    /// An exit code of e2fsck is a mask.
    #[test]
    fn an_exit_code_of_e2fsck_is_a_mask() {
        for (code, verdict) in [
            (Some(0), Verdict::Clean),
            (Some(1), Verdict::Corrected),
            (Some(2), Verdict::Corrected),
            (Some(3), Verdict::Corrected),
            (Some(4), Verdict::Uncorrected),
            (Some(5), Verdict::Uncorrected),
            (Some(6), Verdict::Uncorrected),
            (Some(12), Verdict::Uncorrected),
            (Some(8), Verdict::NotChecked),
            (Some(9), Verdict::NotChecked),
            (Some(16), Verdict::NotChecked),
            (Some(32), Verdict::NotChecked),
            (Some(128), Verdict::NotChecked),
            (None, Verdict::NotChecked),
        ] {
            assert_eq!(verdict_of(code), verdict, "{code:?}");
        }
    }
}
