//! The proof that a device is blank: all bytes are zero in the first and the last 16 MiB, at the places of backup
//! superblocks, and in one page of each of 1,024 equal stretches. Once the first MiB of a file system is wiped, only
//! its backup superblocks distinguish it from a blank disk. The proof reads only some backup superblocks, because
//! reading all would take an hour on a cold disk. Decision:
//! `docs/dev/decisions/0018-format-only-a-disk-that-is-proven-blank.md`.

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use ebs_ec2::SplitMix64;

use super::Contents;
use super::read::Area;

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const TIB: u64 = 1024 * GIB;
/// Bytes that are read at each end, where most file systems, volume managers and encryption formats have headers.
pub(super) const END: u64 = 16 * MIB;
/// Bytes that the second check, right before mkfs, reads at each end.
const END_AGAIN: u64 = MIB;
/// Size of one read in bytes. A device that limits the number of requests counts such a read as one request.
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
    for (from, to) in copies_of_superblocks(size).into_iter().chain(sampled(size, seed)) {
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

/// Size of a page in bytes. The proof reads whole pages around a computed place, and one page for each sample.
pub(super) const PAGE: u64 = 4096;
pub(super) const STRETCHES: u64 = 1024;

/// Bytes in the smallest ext group: 8 * 1024 blocks of 1 KiB. The size of a larger group is a power of two times this
/// size.
const EXT_GROUP: u64 = 8 * KIB * KIB;
/// With blocks of 8 KiB and more, the size of a group is a power of two times 65,528 blocks (8 fewer than 65,536).
const EXT_LARGE_GROUP: u64 = 65_528 * 8 * KIB;
/// mkfs.xfs makes only groups of at least the minimum and below the maximum.
const XFS_MIN_GROUP: u64 = 16 * MIB;
const XFS_MAX_GROUP: u64 = TIB;
/// The block size of xfs unless a StorageClass sets another one, and the maximum block size.
const XFS_BLOCK: u64 = 4 * KIB;
const XFS_MAX_BLOCK: u64 = 64 * KIB;
/// Minimum size of a group if mkfs.xfs makes one group for each CPU.
const XFS_GROUP_FOR_A_CPU: u64 = 4 * GIB;
const XFS_MULTIPLES: u64 = 1024;
/// The blank proof covers every number of xfs groups up to this, and the CPU counts of larger EC2 instances.
const XFS_COUNTS: u64 = 256;
const XFS_LARGE_COUNTS: [u64; 5] = [384, 448, 768, 896, 1920];

/// File systems that have grown: the proof covers every previous size up to this many GiB, and above that only
/// multiples of the sizes in `XFS_ROUND_ENDS`.
const XFS_ENDS: u64 = 4096;
const XFS_ROUND_ENDS: [u64; 2] = [64, 100];
/// The maximum that mkfs.xfs leaves unused on a disk of whole GiB, except with `XFS_MOST_CPUS` CPUs.
const XFS_LEFT_OVER: u64 = 64 * XFS_BLOCK;
const XFS_MOST_CPUS: u64 = 192;

pub(super) fn copies_of_superblocks(size: u64) -> BTreeSet<(u64, u64)> {
    let places = ext(size).chain(btrfs()).chain(xfs(size)).chain(grown_xfs(size));
    places.filter_map(|place| whole_pages(&place, size)).collect()
}

fn whole_pages(place: &Range<u64>, size: u64) -> Option<(u64, u64)> {
    let (from, to) = (place.start / PAGE * PAGE, place.end.div_ceil(PAGE) * PAGE);
    (from + PAGE <= size).then(|| (from, to.min(size)))
}

fn page(at: u64) -> Range<u64> {
    at..at + 1
}

/// Returns the positions of ext backups: group 1 and the groups that are powers of 3, 5 and 7, for every group size.
/// With blocks of 1 KiB the first block belongs to no group, so the backup is one block later, but in the same page.
fn ext(size: u64) -> impl Iterator<Item = Range<u64>> {
    let doubled = move |first: u64| {
        std::iter::successors(Some(first), |group| group.checked_mul(2)).take_while(move |group| *group < size)
    };
    let groups = doubled(EXT_GROUP).chain(doubled(EXT_LARGE_GROUP));
    groups.flat_map(move |group| sparse_groups(size / group).map(move |number| page(number * group)))
}

fn sparse_groups(last: u64) -> impl Iterator<Item = u64> {
    [3_u64, 5, 7].into_iter().flat_map(move |base| {
        std::iter::successors(Some(1), move |power: &u64| power.checked_mul(base)).take_while(move |g| *g <= last)
    })
}

fn btrfs() -> impl Iterator<Item = Range<u64>> {
    [64 * MIB, 64 * MIB + 64 * KIB, 256 * GIB].into_iter().map(page)
}

/// Returns the positions of xfs allocation group headers. mkfs.xfs makes four groups or, since version 6.8, one for
/// each CPU, unless they would be smaller than 4 GiB. An option can set another number of groups, and a group can have
/// nearly 1 TiB.
fn xfs(size: u64) -> impl Iterator<Item = Range<u64>> {
    let as_many_as_fit = size / XFS_GROUP_FOR_A_CPU;
    let counts = (2..=XFS_COUNTS).chain(XFS_LARGE_COUNTS).chain([as_many_as_fit]);
    let counts: BTreeSet<u64> = counts.filter(|count| *count > 1 && size / count >= XFS_MIN_GROUP).collect();
    let multiples = (1..=as_many_as_fit.min(XFS_MULTIPLES)).map(|number| page(number * XFS_GROUP_FOR_A_CPU));
    let largest = (1..=size / XFS_MAX_GROUP).map(|number| page(number * (XFS_MAX_GROUP - XFS_BLOCK)));
    counts.into_iter().flat_map(move |count| of_so_many_groups(size, count)).chain(multiples).chain(largest)
}

/// Returns the possible ends of an xfs file system before it grew. The first group that growth adds begins at such an
/// end, whatever the group size. EBS volumes have whole GiB. mkfs.xfs divides their size by the number of CPUs and
/// leaves the remainder, less than one block for each CPU, unused. So the range before the end is read too.
fn grown_xfs(size: u64) -> impl Iterator<Item = Range<u64>> {
    let each = 1..=XFS_ENDS.min(size / GIB);
    let round = XFS_ROUND_ENDS.into_iter().flat_map(move |step| (1..=size / GIB / step).map(move |count| count * step));
    let ends: BTreeSet<u64> = each.chain(round).map(|end| end * GIB).filter(|end| *end < size).collect();
    ends.into_iter().flat_map(|end| {
        let most = [XFS_MOST_CPUS, (end / XFS_GROUP_FOR_A_CPU).clamp(1, XFS_MOST_CPUS)];
        let of_most = most.map(|groups| page(end / XFS_BLOCK / groups * groups * XFS_BLOCK));
        let further = of_most.into_iter().filter(move |place| place.start < end - XFS_LEFT_OVER);
        std::iter::once(end - XFS_LEFT_OVER..end + 1).chain(further)
    })
}

/// Returns the header positions of the second, a middle and the last of `count` equal groups. mkfs.xfs rounds a group's
/// size to whole blocks (down if it chose the number, up if the number was given) and to the stripes of the disk. Near
/// the start, one range covers all these cases. Further on, the ranges cover only the usual block size.
fn of_so_many_groups(size: u64, count: u64) -> impl Iterator<Item = Range<u64>> {
    let near = size / count;
    let around = near.saturating_sub(2 * XFS_MAX_BLOCK)..near + 2 * XFS_MAX_BLOCK;
    let blocks = size / XFS_BLOCK;
    let rounded = [blocks / count, blocks.div_ceil(count)];
    let further = rounded.into_iter().flat_map(move |group| {
        [1, count / 2, count - 1].into_iter().map(move |number| page(number * group * XFS_BLOCK))
    });
    std::iter::once(around).chain(further)
}

/// Returns one page in each of 1,024 equal stretches of the device, at positions that the seed determines. A second
/// probe of the same volume reads the same pages, so data that EBS had to fetch for the first one arrives at once.
pub(super) fn sampled(size: u64, seed: u64) -> impl Iterator<Item = (u64, u64)> {
    let pages = size / PAGE;
    // Round each bound separately: stretches of a rounded length would miss the end of the device.
    let start = move |number: u64| {
        let place = u128::from(number) * u128::from(pages) / u128::from(STRETCHES);
        u64::try_from(place).unwrap_or(pages)
    };
    let mut random = SplitMix64::new(seed);
    (0..STRETCHES).map(move |number| {
        let (from, to) = (start(number), start(number + 1));
        let page = (from + random.draw() % (to - from).max(1)) * PAGE;
        (page, page + PAGE)
    })
}

pub(super) fn seed(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::super::read::{be32, le32};
    use super::super::tests::made_by;
    use super::*;

    fn is_within(places: &BTreeSet<(u64, u64)>, at: u64) -> bool {
        places.iter().any(|(from, to)| (*from..*to).contains(&at))
    }

    fn is_read(size: u64, at: u64) -> bool {
        is_within(&copies_of_superblocks(size), at)
    }

    #[test]
    fn ext_superblock_copies_are_read_for_every_group_size() {
        // Each row is a block size, a cluster size and a disk size. The superblock contains the end of the first group,
        // as dumpe2fs prints it.
        for (block, cluster, size) in [
            (1024, 0, 1 << 30),
            (2048, 0, 1 << 30),
            (4096, 0, 5 * GIB),
            (4096, 16_384, 9 * GIB),
            (4096, 65_536, 9 * GIB),
        ] {
            let (b, c) = (block.to_string(), cluster.to_string());
            let mut args = vec!["-q", "-F", "-t", "ext4", "-b", &b];
            if cluster > 0 {
                args.extend(["-O", "bigalloc", "-C", &c]);
            }
            let image = made_by("mke2fs", &args, size);
            let mut superblock = [0; 1024];
            image.read_exact_at(&mut superblock, 1024).unwrap();
            let group = u64::from(le32(&superblock, 0x20)) * block;
            let first = u64::from(le32(&superblock, 0x14)) * block;
            assert!(group > 0 && 3 * group < size, "{block} {cluster}: {group}");
            for number in [1, 3] {
                assert!(is_read(size, first + number * group), "{block} {cluster}: group {number} of {group} bytes");
            }
        }
        assert!(is_read(GIB, 64 * MIB + 64 * KIB));
    }

    #[test]
    fn xfs_allocation_group_headers_are_read_for_any_group_count() {
        let odd = 12 * GIB + 13 * PAGE;
        let cases =
            [(odd, 5, 4096), (odd, 25, 4096), (odd, 36, 4096), (odd, 96, 4096), (odd, 7, 1024), (odd, 7, 65_536)];
        for (size, count, block) in cases {
            let (count_word, block_word) = (format!("agcount={count}"), format!("size={block}"));
            let image = made_by("mkfs.xfs", &["-q", "-d", &count_word, "-b", &block_word], size);
            let mut superblock = [0; 512];
            image.read_exact_at(&mut superblock, 0).unwrap();
            let group = u64::from(be32(&superblock, 84)) * u64::from(be32(&superblock, 4));
            assert_eq!(be32(&superblock, 88), count, "groups");
            assert!(is_read(size, group), "{count} groups of {group} bytes, blocks of {block}");
            if block == XFS_BLOCK {
                for number in [u64::from(count) / 2, u64::from(count) - 1] {
                    assert!(is_read(size, number * group), "group {number} of {count}");
                }
            }
        }
    }

    #[test]
    fn old_end_of_a_grown_xfs_is_read_for_any_size_and_cpu_count() {
        let places: Vec<_> = copies_of_superblocks(4 * TIB).into_iter().collect();
        let is_read = |at: u64| {
            let next = places.partition_point(|(from, _)| *from <= at);
            places[..next].iter().rev().take(64).any(|(from, to)| (*from..*to).contains(&at))
        };
        for gib in 1..4096 {
            for cpus in [4, 8, 12, 16, 20, 24, 32, 36, 40, 48, 60, 64, 72, 96, 128, 192] {
                let groups = cpus.min((gib / 4).max(4));
                let end = gib * GIB / XFS_BLOCK / groups * groups * XFS_BLOCK;
                assert!(is_read(end), "{groups} groups on {gib} GiB, which end at {end}");
            }
        }
    }

    /// The copies of superblocks are in fewer than 4,000 ranges of a disk of up to 1 TiB, and in fewer than 11,000 of a
    /// larger one.
    #[test]
    fn xfs_groups_of_largest_machines_and_disks_are_read() {
        // Group sizes that mkfs.xfs of xfsprogs 6.12 prints for this number of CPUs on a solid-state disk.
        for (size, group) in [
            (100 * GIB, 100 * GIB / 25),
            (500 * GIB, 500 * GIB / 96 / XFS_BLOCK * XFS_BLOCK),
            (8 * TIB, 8 * TIB / 48 / XFS_BLOCK * XFS_BLOCK),
            (16 * TIB, 16 * TIB / 896 / XFS_BLOCK * XFS_BLOCK),
            (64 * TIB, TIB - XFS_BLOCK),
        ] {
            assert!(is_read(size, group), "{size} {group}");
            let most = if size <= TIB { 4000 } else { 11_000 };
            assert!(copies_of_superblocks(size).len() < most, "{}", copies_of_superblocks(size).len());
        }
        let places = copies_of_superblocks(16 * TIB);
        for number in 1..=1024 {
            assert!(is_within(&places, number * 4 * GIB), "{number}");
        }
    }

    #[test]
    fn every_proof_range_starts_at_a_page_and_ends_on_the_device() {
        for size in [8 * MIB + 512, GIB, 100 * GIB + 4096 * 3, 64 * TIB] {
            for (from, to) in copies_of_superblocks(size) {
                assert!(from % PAGE == 0 && from < to && to <= size, "{from} to {to} of {size}");
            }
        }
    }

    /// A change of the ranges changes the odds in `docs/never-formatted.md` too.
    #[test]
    fn blank_disk_proof_reads_the_same_ranges_in_every_build() {
        let line = |size: u64| {
            let places = copies_of_superblocks(size);
            let bytes: u64 = places.iter().map(|(from, to)| to - from).sum();
            let sampled: Vec<_> = sampled(size, seed("vol-0abc")).collect();
            let all = seed(&format!("{places:?} {sampled:?}"));
            format!("{size}: {} stretches, {bytes} bytes, {all:x}", places.len())
        };
        let sizes = [40 * MIB, GIB, 100 * GIB + 3 * PAGE, 5 * TIB, 16 * TIB, 64 * TIB];
        insta::assert_snapshot!(sizes.map(line).join("\n"), @r"
        41943040: 6 stretches, 282624 bytes, 259e446c5cc578cf
        1073741824: 422 stretches, 18219008 bytes, 868c58002a1ef587
        107374194688: 1951 stretches, 102363136 bytes, d1fa7bb5642b5a1d
        5497558138880: 8595 stretches, 1183858688 bytes, 613740736bacf700
        17592186044416: 9087 stretches, 1259560960 bytes, efb3ff0cdd29895b
        70368744177664: 10878 stretches, 1589334016 bytes, f57b72911412a5fc
        ");
    }

    #[test]
    fn sampled_stretches_cover_a_device_of_any_size_to_its_end() {
        for size in [8 * MIB + PAGE, 19 * MIB, 5 * GIB - PAGE, 5 * GIB + 7 * PAGE, 64 * TIB - 3 * PAGE] {
            let stretch = size.div_ceil(STRETCHES) + PAGE;
            assert_eq!(sampled(size, seed("vol-0abc")).count(), 1024);
            let mut end = 0;
            for (from, to) in sampled(size, seed("vol-0abc")) {
                assert!(from - end < 2 * stretch && to <= size && to - from == PAGE, "{size}: {end} to {from}");
                end = to;
            }
            assert!(size - end < 2 * stretch, "{size}: nothing is read after {end}");
        }
    }
}
