//! What a device holds, read through the descriptor that is held since the identity check.
//!
//! [`Contents::Blank`] is a positive answer: every place that must be empty was read and is. A read
//! that fails is an error, never an answer. `blkid -p` is asked as a second opinion; when the two
//! disagree nothing is touched.
//!
//! Decision: `docs/decisions/0018-format-only-a-disk-that-is-proven-blank.md`.

mod blank;
mod blkid;
mod checksum;
mod ext;
mod ext_geometry;
mod header;
mod journal;
#[cfg(test)]
mod odds;
mod places;
mod reach;
mod read;
mod signatures;
mod xfs;

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use crate::bounded::{self, Stuck};
use crate::device::Device;
use crate::fs_type::FsType;
use crate::mounter::Mounter;
use crate::tool::ToolError;

pub use blank::BlankProof;
pub use ext::ExtSuperblock;
pub(crate) use journal::has_recorded_error;
pub use reach::GrowthLimit;
pub(crate) use reach::Reach;
pub(crate) use read::Area;
use signatures::Sign;
pub use xfs::XfsSuperblock;

/// How long the reads of a blank proof, some thousands, may take before the caller hears that the disk hangs: as long as a
/// stage may. A cold HDD volume answers ten a second.
pub const PROOF_BOUND: Duration = Duration::from_secs(600);

/// A superblock that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Superblock {
    /// Of ext2, ext3 or ext4.
    Ext(ExtSuperblock),
    /// Of XFS.
    Xfs(XfsSuperblock),
}

impl Superblock {
    /// Which file system it is.
    pub fn fs_type(&self) -> FsType {
        match self {
            Self::Ext(ext) => ext.fs_type(),
            Self::Xfs(_) => FsType::Xfs,
        }
    }

    /// True when the superblock is whole: its checksum and fields are valid and no mkfs was interrupted over it.
    pub fn is_complete(&self) -> bool {
        match self {
            Self::Ext(ext) => ext.is_complete(),
            Self::Xfs(xfs) => xfs.is_complete(),
        }
    }

    /// The size of the file system in bytes.
    pub fn bytes(&self) -> u64 {
        match self {
            Self::Ext(ext) => ext.bytes(),
            Self::Xfs(xfs) => xfs.bytes(),
        }
    }

    /// How large the file system can become on a device of so many bytes.
    pub(crate) fn reach(&self, device: u64) -> Reach {
        match self {
            Self::Ext(ext) => ext.reach(device),
            Self::Xfs(xfs) => xfs.reach(device),
        }
    }
}

/// What a device holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Contents {
    /// Nothing, proven.
    Blank(BlankProof),
    /// One of the file systems that this driver mounts, and no sign of anything else.
    Filesystem(Superblock),
    /// Something that this driver does not mount, or two things at once.
    Foreign {
        what: String,
        /// Where its sign stands, in bytes from the start.
        offset: u64,
    },
    /// Bytes that are not zero and that nobody recognises.
    Data {
        /// Where the first of them stands, in bytes from the start.
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

/// Why it is not known what a device holds.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// A read failed: the device is not blank, it is unreadable.
    #[error("{device} cannot be read; a device that cannot be read is never formatted")]
    Read { device: String, source: io::Error },
    /// The second opinion could not be had.
    #[error("blkid could not examine {device}")]
    Tool { device: String, source: ToolError },
    /// Two ways of looking found different things.
    #[error("the driver finds {own} on {device}, but blkid finds {blkid}: nothing was written to it")]
    Disagreement { device: String, own: String, blkid: String },
    #[error(transparent)]
    Stuck(#[from] Stuck),
}

/// How thoroughly to look for bytes where nothing is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Depth {
    /// The whole proof of a blank disk; the seed says which pages are sampled.
    Proof {
        /// From the volume's id.
        seed: u64,
    },
    /// The first and the last MiB: to look again at what was proven a moment ago, without leaving it time to change.
    Again,
}

impl Mounter {
    /// Looks at all that a device holds, with both opinions.
    ///
    /// # Errors
    /// [`ProbeError`].
    pub async fn probe(&self, device: &Device) -> Result<Contents, ProbeError> {
        let seed = places::seed(device.volume().as_str());
        let own = self.look(device, Depth::Proof { seed }).await?;
        if matches!(own, Contents::Foreign { .. }) {
            return Ok(own);
        }
        let name = device.path().display().to_string();
        let second = blkid::ask(&self.tools, device.path()).await;
        let second = second.map_err(|source| ProbeError::Tool { device: name.clone(), source })?;
        blkid::reconcile(own, &second).map_err(|(own, blkid)| ProbeError::Disagreement { device: name, own, blkid })
    }

    /// Reads signatures and the first and last MiB once more, without a child.
    pub(crate) async fn probe_again(&self, device: &Device) -> Result<Contents, ProbeError> {
        self.look(device, Depth::Again).await
    }

    async fn look(&self, device: &Device, depth: Depth) -> Result<Contents, ProbeError> {
        let name = device.path().display().to_string();
        let held = Arc::clone(device.file());
        let look = move || {
            // A file system that was mounted in between may have written past the cache of the block device.
            let dropped = rustix::fs::fadvise(&*held, 0, None, rustix::fs::Advice::DontNeed);
            let size = dropped.map_err(io::Error::from).and_then(|()| crate::os::block_size(&held));
            let contents = size.and_then(|size| inspect(&Area::new(&*held, size), depth));
            contents.map_err(|source| ProbeError::Read { device: name, source })
        };
        bounded::reading_within(PROOF_BOUND, "reading", device.path(), look).await
    }
}

/// The one superblock of an area, whatever else is there.
pub(crate) fn read_superblock(area: &Area<'_>) -> io::Result<Option<Superblock>> {
    Ok(match ext::read(area)? {
        Some(ext) => Some(Superblock::Ext(ext)),
        None => xfs::read(area)?.map(Superblock::Xfs),
    })
}

/// What an area holds, by its signatures and, where there are none, by its bytes.
fn inspect(area: &Area<'_>, depth: Depth) -> io::Result<Contents> {
    let mut signs = signatures::find(area)?;
    let superblock = match (ext::read(area)?, xfs::read(area)?) {
        (None, None) => None,
        (Some(ext), None) => Some(Superblock::Ext(ext)),
        (None, Some(xfs)) => Some(Superblock::Xfs(xfs)),
        (Some(_), Some(_)) => {
            signs.push(Sign { what: "both ext and xfs", offset: ext::OFFSET });
            None
        }
    };
    if superblock.as_ref().is_some_and(Superblock::is_complete) {
        signs = agreeing(area, signs)?;
    }
    Ok(match (superblock, signs.first()) {
        (Some(superblock), None) => Contents::Filesystem(superblock),
        (None, Some(Sign { what, offset })) => Contents::Foreign { what: (*what).to_owned(), offset: *offset },
        (Some(superblock), Some(Sign { what, offset })) => {
            Contents::Foreign { what: format!("{} together with {what}", superblock.fs_type()), offset: *offset }
        }
        (None, None) => match depth {
            Depth::Proof { seed } => blank::prove(area, seed)?,
            Depth::Again => blank::look_at_the_ends(area)?,
        },
    })
}

/// The signs whose header agrees with itself.
fn agreeing(area: &Area<'_>, signs: Vec<Sign>) -> io::Result<Vec<Sign>> {
    let mut agreeing = Vec::new();
    for sign in signs {
        if header::agrees(area, &sign)? {
            agreeing.push(sign);
        }
    }
    Ok(agreeing)
}

#[cfg(test)]
pub(crate) mod tests;
