//! e2fsck, only where the superblock says that it must run (`decisions.md` D-36). XFS repairs itself at mount from its log.

use crate::device::Device;
use crate::mounter::Mounter;
use crate::probe::Superblock;
use crate::tool::{Call, Finished, Program, ToolError};

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
}

/// What a check did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Clean,
    Corrected,
    Uncorrected,
    NotChecked,
}

/// The exit code is a mask: a combination with "errors left uncorrected" is that (`node.md` N-12).
fn verdict_of(code: Option<i32>) -> Verdict {
    match code {
        Some(0) => Verdict::Clean,
        Some(code) if code & UNCORRECTED != 0 => Verdict::Uncorrected,
        Some(code) if code & !(CORRECTED | CORRECTED_REBOOT) == 0 => Verdict::Corrected,
        _ => Verdict::NotChecked,
    }
}

impl Mounter {
    /// Checks and repairs an ext file system that says it needs it; starts nothing otherwise. It must not be mounted.
    ///
    /// # Errors
    /// [`CheckError`].
    pub async fn check_if_needed(&self, device: &Device, superblock: &Superblock) -> Result<(), CheckError> {
        match superblock {
            Superblock::Ext(ext) if ext.needs_check() => self.check(device, &["-p"]).await,
            _ => Ok(()),
        }
    }

    /// Checks an ext file system in full, as resize2fs demands of one that is not mounted.
    pub(crate) async fn check_in_full(&self, device: &Device) -> Result<(), CheckError> {
        self.check(device, &["-f", "-p"]).await
    }

    async fn check(&self, device: &Device, flags: &[&str]) -> Result<(), CheckError> {
        let args = flags.iter().map(std::ffi::OsStr::new).chain([device.path().as_os_str()]);
        tracing::info!(volume = %device.volume(), device = %device.path().display(), "checking the file system");
        conclude(self.tools.change(Call::new(Program::E2fsck, args)).await?)
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
        Verdict::NotChecked => Err(CheckError::Tool(ended.into_error())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An exit code of e2fsck is a mask.
    ///
    /// Rule: node.md N-12
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
