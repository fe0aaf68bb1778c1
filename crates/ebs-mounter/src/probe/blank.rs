//! The proof that a device is blank (`decisions.md` D-31): no byte other than zero in the first and the last MiB, in the
//! places where ext, xfs and btrfs keep further superblocks, and in one page at a random place of each of 1,024 equal
//! stretches.

use std::collections::BTreeSet;
use std::io;

use rand::RngExt;

use super::Contents;
use super::read::Area;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
/// What is read at a place.
const PAGE: u64 = 4096;
/// What is read at once at the ends.
const CHUNK: u64 = 64 * KIB;
/// In how many stretches a page is read.
const STRETCHES: u64 = 1024;
/// A device up to this size is read whole.
const SMALL: u64 = STRETCHES * PAGE * 2;
/// mkfs.xfs makes four allocation groups of a disk of less than 4 TiB, groups of 1 TiB of a larger one.
const XFS_LARGE: u64 = 4 << 40;
const XFS_MAX_GROUP: u64 = ((1 << 40) - 1) / PAGE * PAGE;

/// Evidence that a device was read and found blank. Only the probe makes one; a format asks for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BlankProof {
    /// The size of what was looked at.
    bytes: u64,
}

impl BlankProof {
    /// The size in bytes of the device that was looked at.
    pub fn device_bytes(&self) -> u64 {
        self.bytes
    }
}

/// All of D-31.
pub(super) fn prove(area: &Area<'_>) -> io::Result<Contents> {
    let size = area.size();
    if size == 0 {
        return Err(io::Error::other("the device has a size of 0"));
    }
    if size <= SMALL {
        return Ok(first_data(area, 0, size)?.map_or(blank(size), |offset| Contents::Data { offset }));
    }
    if let Some(offset) = ends(area)? {
        return Ok(Contents::Data { offset });
    }
    let random = random_places(size, &mut rand::rng());
    for place in backup_places(size).into_iter().chain(random) {
        if let Some(offset) = first_data(area, place, size.min(place + PAGE))? {
            return Ok(Contents::Data { offset });
        }
    }
    Ok(blank(size))
}

/// The ends alone.
pub(super) fn look_at_the_ends(area: &Area<'_>) -> io::Result<Contents> {
    Ok(ends(area)?.map_or(blank(area.size()), |offset| Contents::Data { offset }))
}

fn blank(bytes: u64) -> Contents {
    Contents::Blank(BlankProof { bytes })
}

fn ends(area: &Area<'_>) -> io::Result<Option<u64>> {
    let size = area.size();
    match first_data(area, 0, size.min(MIB))? {
        Some(offset) => Ok(Some(offset)),
        None => first_data(area, size.saturating_sub(MIB), size),
    }
}

/// The place of the first byte that is not zero, between two places.
fn first_data(area: &Area<'_>, from: u64, to: u64) -> io::Result<Option<u64>> {
    let mut at = from;
    while at < to {
        let length = CHUNK.min(to - at);
        let bytes = area.read(at, usize::try_from(length).map_err(io::Error::other)?)?;
        if let Some(index) = bytes.iter().position(|byte| *byte != 0) {
            return Ok(Some(at + u64::try_from(index).map_err(io::Error::other)?));
        }
        at += length;
    }
    Ok(None)
}

/// The pages, on their boundaries, that hold further superblocks of a file system that was made on the whole device.
fn backup_places(size: u64) -> BTreeSet<u64> {
    let mut places = BTreeSet::new();
    places.extend([64 * MIB, 64 * MIB + 64 * KIB, 256 * GIB]);
    for block in [1024, 2048, 4096] {
        // A group has as many blocks as one block has bits; with 1 KiB blocks the first block belongs to no group.
        let group = block * block * 8;
        let first = if block == 1024 { block } else { 0 };
        places.extend(sparse_groups(size / group).map(|number| number * group + first));
    }
    let blocks = size / PAGE;
    if size >= XFS_LARGE {
        places.extend((1..=size / XFS_MAX_GROUP).map(|group| group * XFS_MAX_GROUP));
    } else {
        places
            .extend([2, 4].into_iter().flat_map(|groups| (1..groups).map(move |n| n * blocks.div_ceil(groups) * PAGE)));
    }
    places.into_iter().map(|place| place / PAGE * PAGE).filter(|place| place + PAGE <= size).collect()
}

/// The block groups that keep a copy of the superblock: 1 and the powers of 3, 5 and 7.
fn sparse_groups(last: u64) -> impl Iterator<Item = u64> {
    [3_u64, 5, 7].into_iter().flat_map(move |base| {
        std::iter::successors(Some(1), move |power: &u64| power.checked_mul(base)).take_while(move |g| *g <= last)
    })
}

/// One page boundary in each of 1,024 equal stretches.
fn random_places(size: u64, random: &mut impl rand::Rng) -> Vec<u64> {
    let stretch = size / STRETCHES / PAGE;
    (0..STRETCHES).map(|number| (number * stretch + random.random_range(0..stretch)) * PAGE).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backup_superblocks_lie_where_the_tools_put_them() {
        // mke2fs -n on 1 GiB: 32768, 98304, 163840, 229376 with 4 KiB blocks; mkfs.xfs: 4 groups of 65536 blocks.
        let places = backup_places(1 << 30);
        for block in [32_768, 98_304, 163_840, 229_376, 65_536, 131_072, 196_608] {
            assert!(places.contains(&(block * 4096)), "block {block}");
        }
        // 8193 and 24577 with 1 KiB blocks, on their pages.
        assert!(places.contains(&(8192 * 1024)) && places.contains(&(24_576 * 1024)));
        assert!(places.contains(&(64 * MIB + 64 * KIB)));
        assert!(places.iter().all(|place| place + PAGE <= 1 << 30 && place % PAGE == 0));
    }

    #[test]
    fn a_page_is_read_in_each_of_1024_stretches() {
        let size = (5 << 30) + 12_288;
        let places = random_places(size, &mut rand::rng());
        let stretch = size / STRETCHES / PAGE * PAGE;
        assert_eq!(places.len(), 1024);
        for (number, place) in (0..).zip(places) {
            assert!((number * stretch..(number + 1) * stretch).contains(&place));
        }
    }
}
