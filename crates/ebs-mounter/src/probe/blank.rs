//! The proof that a device is blank: all bytes are zero in the first and the last 16 MiB, at the places of backup
//! superblocks, and in one page of each of 1,024 equal stretches (`places`). Decision:
//! `docs/decisions/0018-format-only-a-disk-that-is-proven-blank.md`.

use std::io;

use super::Contents;
use super::places;
use super::read::Area;

const MIB: u64 = 1024 * 1024;
/// Bytes that are read at each end, where most file systems, volume managers and encryption formats have headers.
pub(super) const END: u64 = 16 * MIB;
/// Bytes that the second check, right before mkfs, reads at each end.
const END_AGAIN: u64 = MIB;
/// Size of one read in bytes. A device that limits the number of requests counts it as one.
const CHUNK: usize = 256 * 1024;
/// A device up to this size in bytes is read in full.
const SMALL: u64 = 2 * END;

/// Proof that a device was read and found blank. Only the probe creates it, and a format requires it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlankProof {
    bytes: u64,
}

impl BlankProof {
    /// Returns the size of the examined device in bytes.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }
}

pub(super) fn prove(area: &Area<'_>, seed: u64) -> io::Result<Contents> {
    let size = area.size();
    if size == 0 {
        return Err(io::Error::other("the device has a size of 0"));
    }
    if size <= SMALL {
        return Ok(first_data(area, 0, size)?.map_or(blank(size), |offset| Contents::Data { offset }));
    }
    if let Some(offset) = ends(area, END)? {
        return Ok(Contents::Data { offset });
    }
    for (from, to) in places::copies_of_superblocks(size).into_iter().chain(places::sampled(size, seed)) {
        if let Some(offset) = first_data(area, from, to)? {
            return Ok(Contents::Data { offset });
        }
    }
    Ok(blank(size))
}

pub(super) fn check_ends(area: &Area<'_>) -> io::Result<Contents> {
    Ok(ends(area, END_AGAIN)?.map_or(blank(area.size()), |offset| Contents::Data { offset }))
}

fn blank(bytes: u64) -> Contents {
    Contents::Blank(BlankProof { bytes })
}

fn ends(area: &Area<'_>, length: u64) -> io::Result<Option<u64>> {
    let size = area.size();
    match first_data(area, 0, size.min(length))? {
        Some(offset) => Ok(Some(offset)),
        None => first_data(area, size.saturating_sub(length), size),
    }
}

fn first_data(area: &Area<'_>, from: u64, to: u64) -> io::Result<Option<u64>> {
    /// Compares whole pages: in a debug build, a loop over single bytes takes seconds for tens of MiB.
    static ZEROS: [u8; 4096] = [0; 4096];
    let mut at = from;
    while at < to {
        let length = usize::try_from(to - at).map_or(CHUNK, |left| left.min(CHUNK));
        let bytes = area.read(at, length)?;
        if !bytes.chunks(ZEROS.len()).all(|page| page == &ZEROS[..page.len()])
            && let Some(index) = bytes.iter().position(|byte| *byte != 0)
        {
            return Ok(Some(at + u64::try_from(index).map_err(io::Error::other)?));
        }
        at += u64::try_from(length).map_err(io::Error::other)?;
    }
    Ok(None)
}
