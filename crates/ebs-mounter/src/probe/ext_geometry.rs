//! Computes how large an ext file system can become on a device, as the kernel and resize2fs do.

use super::reach::{GrowthLimit, Reach};
use super::read::{le16, le32};

const INCOMPAT_64BIT: u32 = 0x80;
const RO_COMPAT_BIGALLOC: u32 = 0x200;
const SMALL_DESCRIPTOR: u64 = 32;
const FIRST_INODE: u64 = 128;
/// Free blocks that resize2fs requires in the last group, in addition to the group's own tables.
const LEAST_FREE: u64 = 50;
/// The tools round sizes down to pages of at most 64 KiB, so a difference below this many bytes is not growth.
const LEAST_GROWTH: u64 = 1 << 20;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Geometry {
    block_bytes: u64,
    cluster_blocks: u64,
    first_block: u64,
    group_blocks: u64,
    group_inodes: u64,
    inode_bytes: u64,
    descriptor_bytes: u64,
    reserved_descriptor_blocks: u64,
    has_64bit: bool,
}

impl Geometry {
    /// Parses the 1,024 bytes of a superblock. Replaces impossible numbers with the nearest possible ones.
    pub(super) fn parse(bytes: &[u8]) -> Self {
        let log_block = le32(bytes, 0x18).min(6);
        let has_64bit = le32(bytes, 0x60) & INCOMPAT_64BIT != 0;
        let has_clusters = le32(bytes, 0x64) & RO_COMPAT_BIGALLOC != 0;
        let log_ratio = if has_clusters { le32(bytes, 0x1c).saturating_sub(log_block).min(24) } else { 0 };
        let revision = le32(bytes, 0x4c);
        Self {
            block_bytes: 1024 << log_block,
            cluster_blocks: 1 << log_ratio,
            first_block: u64::from(le32(bytes, 0x14)),
            group_blocks: u64::from(le32(bytes, 0x20)).max(1),
            group_inodes: u64::from(le32(bytes, 0x28)).max(1),
            inode_bytes: if revision == 0 { FIRST_INODE } else { u64::from(le16(bytes, 0x58)).max(FIRST_INODE) },
            descriptor_bytes: if has_64bit {
                u64::from(le16(bytes, 0xfe)).max(SMALL_DESCRIPTOR)
            } else {
                SMALL_DESCRIPTOR
            },
            reserved_descriptor_blocks: u64::from(le16(bytes, 0xce)),
            has_64bit,
        }
    }

    pub(super) fn reach(&self, device: u64) -> Reach {
        let on_device = device / self.block_bytes;
        let (most, limit) = self.most_blocks();
        let capped = on_device.min(most);
        let blocks = self.without_a_small_last_group(capped - capped % self.cluster_blocks);
        let is_short = on_device - blocks > self.group_blocks;
        Reach {
            bytes: blocks.saturating_mul(self.block_bytes),
            least_growth: LEAST_GROWTH,
            group_bytes: self.group_blocks.saturating_mul(self.block_bytes),
            blocks: (most < on_device).then_some(blocks),
            limit: (most < on_device && is_short).then_some(limit),
        }
    }

    fn most_blocks(&self) -> (u64, GrowthLimit) {
        let groups = |count: u64| self.first_block.saturating_add(count.saturating_mul(self.group_blocks));
        let numbers = if self.has_64bit { u64::MAX } else { u64::from(u32::MAX) };
        // Computed as in the kernel's `ext4_resize_fs`. resize2fs could use at most one more group.
        let inodes = groups(u64::from(u32::MAX) / self.group_inodes);
        let descriptor_blocks = self.group_blocks.saturating_sub(self.first_block);
        let descriptors = groups(descriptor_blocks.saturating_mul(self.block_bytes / self.descriptor_bytes));
        let limits = [
            (numbers, GrowthLimit::BlockNumbers),
            (inodes, GrowthLimit::Inodes),
            (descriptors, GrowthLimit::Descriptors),
        ];
        limits.into_iter().min_by_key(|(most, _)| *most).unwrap_or((numbers, GrowthLimit::BlockNumbers))
    }

    /// Omits a last group that has no room for its own tables: resize2fs requires 50 more blocks, and the kernel one
    /// cluster. Assumes that the group has copies of the superblock and the descriptors, although only some have them.
    fn without_a_small_last_group(&self, blocks: u64) -> u64 {
        let in_groups = blocks.saturating_sub(self.first_block);
        let rest = in_groups % self.group_blocks;
        if rest != 0 && rest < self.least_last_group(in_groups) { blocks - rest } else { blocks }
    }

    /// Returns the minimum size in blocks of a last group, if all groups together have `in_groups` blocks.
    fn least_last_group(&self, in_groups: u64) -> u64 {
        let groups = in_groups.div_ceil(self.group_blocks);
        let bitmaps = 2;
        let inode_table = self.group_inodes.saturating_mul(self.inode_bytes).div_ceil(self.block_bytes);
        let descriptors = groups.saturating_mul(self.descriptor_bytes).div_ceil(self.block_bytes);
        let copies = 1 + descriptors + self.reserved_descriptor_blocks;
        bitmaps + inode_table + copies + LEAST_FREE.max(self.cluster_blocks + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const GIB: u64 = 1 << 30;
    const TIB: u64 = 1 << 40;

    /// The geometry that mke2fs chooses for a disk of some GiB: blocks of 4 KiB in groups of 128 MiB.
    fn usual() -> Geometry {
        Geometry {
            block_bytes: 4 * KIB,
            cluster_blocks: 1,
            first_block: 0,
            group_blocks: 32_768,
            group_inodes: 8192,
            inode_bytes: 256,
            descriptor_bytes: 64,
            reserved_descriptor_blocks: 1024,
            has_64bit: true,
        }
    }

    fn without_64bit() -> Geometry {
        Geometry { has_64bit: false, descriptor_bytes: 32, ..usual() }
    }

    #[test]
    fn file_system_fills_a_device_of_whole_block_groups() {
        for device in [GIB, 10 * GIB, 16 * TIB, 63 * TIB] {
            let reach = usual().reach(device);
            assert_eq!((reach.bytes, reach.blocks, reach.limit), (device, None, None), "{device}");
        }
        // A partial block at the end does not count.
        assert_eq!(usual().reach(GIB + 4095).bytes, GIB);
    }

    #[test]
    fn last_block_group_without_room_for_its_tables_is_omitted() {
        let least = 512 + 2 + 1 + 1024 + 1 + 50;
        assert_eq!(usual().reach(GIB + (least - 1) * 4 * KIB).bytes, GIB);
        assert_eq!(usual().reach(GIB + least * 4 * KIB).bytes, GIB + least * 4 * KIB);
        // The groups begin at the first block, even if that is not block 0.
        let shifted = Geometry { first_block: 1, block_bytes: KIB, group_blocks: 8192, ..usual() };
        assert_eq!(shifted.reach(GIB).bytes, GIB);
        assert_eq!(shifted.reach(GIB + KIB).bytes, GIB + KIB);
        assert_eq!(shifted.reach(GIB + 2 * KIB).bytes, GIB + KIB);
    }

    /// With clusters of 1 MiB, a block group has 32 GiB. The last group is omitted only if it has just a few MiB.
    #[test]
    fn incomplete_last_block_group_is_used_if_its_tables_fit() {
        let clusters =
            Geometry { cluster_blocks: 256, group_blocks: 32_768 * 256, reserved_descriptor_blocks: 0, ..usual() };
        assert_eq!(clusters.reach(17 * GIB).bytes, 17 * GIB);
        let tables = 512 + 2 + 1 + 1 + 257;
        assert_eq!(clusters.reach(32 * GIB + (tables - 1) * 4 * KIB).bytes, 32 * GIB);
        // Only whole clusters are used.
        assert_eq!(clusters.reach(32 * GIB + 20 * MIB + 4 * KIB).bytes, 32 * GIB + 20 * MIB);
    }

    #[test]
    fn file_system_without_64bit_ends_at_32_bit_block_numbers() {
        let most = u64::from(u32::MAX);
        let reach = without_64bit().reach(17 * TIB);
        assert_eq!((reach.bytes, reach.blocks), (most * 4 * KIB, Some(most)));
        assert_eq!(reach.limit, Some(GrowthLimit::BlockNumbers));
        assert_eq!(usual().reach(17 * TIB).limit, None);
        // A loss of one block out of 16 TiB does not count as a limit.
        let whole = without_64bit().reach(16 * TIB);
        assert_eq!((whole.bytes, whole.blocks, whole.limit), (most * 4 * KIB, Some(most), None));
        let below = without_64bit().reach(16 * TIB - 4 * KIB);
        assert_eq!((below.bytes, below.blocks, below.limit), (most * 4 * KIB, None, None));
    }

    /// On the largest EC2 volume, the last group of 8,192 inodes would exceed 2^32 - 1 inodes.
    #[test]
    fn inode_limit_keeps_a_file_system_below_64_tib() {
        let reach = usual().reach(64 * TIB);
        assert_eq!((reach.bytes, reach.blocks), (64 * TIB - 128 * MIB, Some(524_287 * 32_768)));
        assert_eq!(reach.limit, None, "one group less than the device is the maximum");
        let many = Geometry { group_inodes: 32_768, ..usual() };
        let reach = many.reach(17 * TIB);
        assert_eq!((reach.bytes, reach.limit), (16 * TIB - 128 * MIB, Some(GrowthLimit::Inodes)));
        assert_eq!(many.reach(16 * TIB).limit, None);
    }

    /// With blocks of 1 KiB, 8,191 blocks of 16 descriptors each describe less than 1 TiB.
    #[test]
    fn descriptor_limit_applies_to_file_systems_with_small_blocks() {
        let small = Geometry { first_block: 1, block_bytes: KIB, group_blocks: 8192, group_inodes: 2048, ..usual() };
        let reach = small.reach(2 * TIB);
        assert_eq!((reach.bytes, reach.limit), ((1 + 8191 * 16 * 8192) * KIB, Some(GrowthLimit::Descriptors)));
    }

    #[test]
    fn reachable_size_never_exceeds_the_device() {
        for byte in [0, 1, 0x7f, 0xff] {
            for device in [0, 1, GIB, u64::MAX] {
                assert!(Geometry::parse(&[byte; 1024]).reach(device).bytes <= device, "{byte:#x} {device}");
            }
        }
    }

    #[test]
    fn geometry_is_parsed_from_a_superblock() {
        let mut bytes = [0; 1024];
        let mut put = |at: usize, number: u32| bytes[at..at + 4].copy_from_slice(&number.to_le_bytes());
        put(0x14, 1);
        put(0x18, 2);
        put(0x1c, 10);
        put(0x20, 32_768 * 256);
        put(0x28, 8192);
        put(0x4c, 1);
        put(0x58, 256);
        put(0x60, 0x80);
        put(0x64, 0x200);
        put(0xce, 17);
        put(0xfe, 64);
        let wanted = Geometry {
            first_block: 1,
            cluster_blocks: 256,
            group_blocks: 32_768 * 256,
            reserved_descriptor_blocks: 17,
            ..usual()
        };
        assert_eq!(Geometry::parse(&bytes), wanted);
        // In a superblock of the first revision, or without the features, the fields for clusters, inodes and
        // descriptors have another meaning.
        for at in [0x4c, 0x60, 0x64] {
            bytes[at..at + 4].copy_from_slice(&[0; 4]);
        }
        let plain = Geometry { cluster_blocks: 1, inode_bytes: 128, descriptor_bytes: 32, has_64bit: false, ..wanted };
        assert_eq!(Geometry::parse(&bytes), plain);
    }
}
