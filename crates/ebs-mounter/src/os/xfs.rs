//! XFS: the data that the kernel reports about a mounted file system.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::ioctl::{Getter, Opcode, ioctl, opcode};

/// `struct xfs_fsop_geom_v1` of `fs/xfs/libxfs/xfs_fs.h`: 112 bytes.
#[repr(C)]
struct Geometry {
    block_bytes: u32,
    /// Sizes and counts before the number of data blocks; not used here.
    sizes: [u32; 7],
    data_blocks: u64,
    realtime_and_log: [u64; 3],
    uuid: [u8; 16],
    rest: [u32; 8],
}

/// `_IOR('X', 100, struct xfs_fsop_geom_v1)`.
const FSGEOMETRY_V1: Opcode = opcode::read::<Geometry>(b'X', 100);

/// Returns the bytes of the data section of a mounted XFS. statfs(2) excludes the log and obeys project quotas.
pub(crate) fn xfs_data_bytes(at: &Path) -> io::Result<u64> {
    let directory = File::open(at)?;
    // SAFETY: the opcode is XFS_IOC_FSGEOMETRY_V1, for which the kernel writes one `Geometry` (112 bytes, checked by a
    // test) and nothing else; every bit pattern is valid. On a file system that is not XFS, the ioctl fails with ENOTTY
    // and writes nothing.
    let geometry = unsafe { ioctl(&directory, Getter::<FSGEOMETRY_V1, Geometry>::new()) }?;
    Ok(geometry.data_blocks.saturating_mul(u64::from(geometry.block_bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn xfs_geometry_matches_the_kernel_layout() {
        assert_eq!(size_of::<Geometry>(), 112);
        assert_eq!(FSGEOMETRY_V1, 0x8070_5864);
        assert_eq!(std::mem::offset_of!(Geometry, data_blocks), 32);
    }

    #[test]
    fn other_file_systems_have_no_xfs_geometry() {
        assert!(xfs_data_bytes(Path::new("/proc")).is_err());
        assert!(xfs_data_bytes(Path::new("/nonexistent")).is_err());
    }
}
