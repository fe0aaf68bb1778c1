//! Examines what a device contains, through the descriptor that has been held since the identity check.
//! [`Contents::Blank`] is a proof: every place that must be empty was read and is empty. A failed read is an error,
//! never a result. If the second opinion, `blkid -p`, disagrees, the driver writes nothing. Decision:
//! `docs/dev/decisions/0018-format-only-a-disk-that-is-proven-blank.md`.

mod blank;
mod blkid;
mod ext;
mod ext_geometry;
mod header;
#[cfg(test)]
mod odds;
mod reach;
mod read;
mod signatures;
mod xfs;

use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

use crate::bounded::{self, Stuck};
use crate::device::Device;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::tools::ToolError;

pub use blank::BlankProof;
pub use ext::ExtSuperblock;
pub(crate) use ext::has_recorded_error;
pub use reach::GrowthLimit;
pub(crate) use reach::Reach;
pub(crate) use read::{Area, le32, le64};
use signatures::FoundSignature;
pub use xfs::XfsSuperblock;

/// Time limit for the few thousand reads of a blank proof, after which the disk counts as hung. It equals the time
/// limit of NodeStageVolume. A cold HDD volume completes ten reads a second.
pub const PROOF_BOUND: Duration = Duration::from_secs(600);

/// The superblock of a file system that this driver mounts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Superblock {
    Ext(ExtSuperblock),
    Xfs(XfsSuperblock),
}

impl Superblock {
    pub fn fs_type(&self) -> FsType {
        match self {
            Self::Ext(ext) => ext.fs_type(),
            Self::Xfs(_) => FsType::Xfs,
        }
    }

    /// True if the superblock is complete: its checksum and fields are valid, and no mkfs was interrupted.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Ext(ext) => ext.is_complete(),
            Self::Xfs(xfs) => xfs.is_complete(),
        }
    }

    /// Returns the size of the file system in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Ext(ext) => ext.bytes(),
            Self::Xfs(xfs) => xfs.bytes(),
        }
    }

    pub(crate) fn reach(&self, device: u64) -> Reach {
        match self {
            Self::Ext(ext) => ext.reach(device),
            Self::Xfs(_) => Reach::of_xfs(device),
        }
    }
}

/// The contents of a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    Blank(BlankProof),
    /// A file system that this driver mounts, and no signature of anything else.
    Filesystem(Superblock),
    /// Contents that this driver does not mount, or contents with two signatures.
    Foreign {
        what: String,
        offset: u64,
    },
    /// Bytes that are not zero, without a known signature.
    Data {
        offset: u64,
    },
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blank(_) => f.write_str("nothing"),
            Self::Filesystem(superblock) if superblock.is_complete() => write!(f, "{}", superblock.fs_type()),
            Self::Filesystem(superblock) => write!(f, "an incomplete or damaged {}", superblock.fs_type()),
            Self::Foreign { what, offset } => write!(f, "{what} (at byte {offset})"),
            Self::Data { offset } => write!(f, "data of unknown kind (first seen at byte {offset})"),
        }
    }
}

/// Why the contents of a device are unknown.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A read failed, so the device is unreadable, not blank.
    #[error("read {device} (the driver never formats an unreadable device)")]
    Read { device: String, source: io::Error },
    /// blkid failed to give the second opinion.
    #[error("examine {device} with blkid")]
    Tool { device: String, source: ToolError },
    #[error("the driver finds {own} on {device}, but blkid finds {blkid}; nothing was written to it")]
    Disagreement { device: String, own: String, blkid: String },
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

/// How thoroughly to search for data if there is no signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    Proof {
        /// Selects the sampled pages; derived from the volume id.
        seed: u64,
    },
    /// Only the first and the last MiB, for a quick second check of a disk that was just proven blank.
    Again,
}

impl Mounter {
    /// Examines the whole contents of a device, with this crate's own probe and with `blkid -p`.
    pub async fn probe(&self, device: &Device) -> Result<Contents, ProbeError> {
        let seed = blank::seed(device.volume().as_str());
        let own = read_contents(device, Depth::Proof { seed }).await?;
        if matches!(own, Contents::Foreign { .. }) {
            return Ok(own);
        }
        let name = device.path().display().to_string();
        let second = blkid::ask(&self.tools, device.path()).await;
        let second = second.map_err(|source| ProbeError::Tool { device: name.clone(), source })?;
        blkid::reconcile(own, &second).map_err(|(own, blkid)| ProbeError::Disagreement { device: name, own, blkid })
    }
}

/// Reads signatures and the first and last MiB again, without a child process.
pub(crate) async fn probe_again(device: &Device) -> Result<Contents, ProbeError> {
    read_contents(device, Depth::Again).await
}

async fn read_contents(device: &Device, depth: Depth) -> Result<Contents, ProbeError> {
    let name = device.path().display().to_string();
    let held = Arc::clone(device.file());
    let read = move || {
        // Drop the cache of the block device, which a file system mounted since the probe may have bypassed.
        let dropped = rustix::fs::fadvise(&*held, 0, None, rustix::fs::Advice::DontNeed);
        let size = dropped.map_err(io::Error::from).and_then(|()| crate::os::block_size(&held));
        let contents = size.and_then(|size| inspect(&Area::new(&*held, size), depth));
        contents.map_err(|source| ProbeError::Read { device: name, source })
    };
    bounded::reading_within(PROOF_BOUND, "reading", device.path(), read).await
}

/// Returns the superblock in an area, and ignores all other signatures.
pub(crate) fn read_superblock(area: &Area<'_>) -> io::Result<Option<Superblock>> {
    Ok(match ext::read(area)? {
        Some(ext) => Some(Superblock::Ext(ext)),
        None => xfs::read(area)?.map(Superblock::Xfs),
    })
}

/// Determines the contents of an area from its signatures or, without any, from its bytes.
fn inspect(area: &Area<'_>, depth: Depth) -> io::Result<Contents> {
    let mut signs = signatures::find(area)?;
    let superblock = match (ext::read(area)?, xfs::read(area)?) {
        (None, None) => None,
        (Some(ext), None) => Some(Superblock::Ext(ext)),
        (None, Some(xfs)) => Some(Superblock::Xfs(xfs)),
        (Some(_), Some(_)) => {
            signs.push(FoundSignature { what: "superblocks of both ext and xfs", offset: ext::OFFSET });
            None
        }
    };
    if superblock.as_ref().is_some_and(Superblock::is_complete) {
        let valid = |sign| io::Result::Ok(header::is_valid(area, &sign)?.then_some(sign));
        signs = signs.into_iter().filter_map(|sign| valid(sign).transpose()).collect::<io::Result<_>>()?;
    }
    Ok(match (superblock, signs.first()) {
        (Some(superblock), None) => Contents::Filesystem(superblock),
        (None, Some(FoundSignature { what, offset })) => {
            Contents::Foreign { what: (*what).to_owned(), offset: *offset }
        }
        (Some(superblock), Some(FoundSignature { what, offset })) => {
            Contents::Foreign { what: format!("{} together with {what}", superblock.fs_type()), offset: *offset }
        }
        (None, None) => match depth {
            Depth::Proof { seed } => blank::prove(area, seed)?,
            Depth::Again => blank::check_ends(area)?,
        },
    })
}

#[cfg(test)]
pub(crate) mod tests;
