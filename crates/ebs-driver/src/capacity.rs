//! Parses the sizes that requests ask for.

use csi_proto::csi::CapacityRange;
use ebs_cloud::CapacityRequest;
use ebs_ec2::{Bytes, Gib, SizeError, VolumeType};
use ebs_mounter::{FormatOptions, FsType};

use crate::capability::Access;
use crate::parameters::block_size;
use crate::status::{IntoStatus, Meaning};

const DEFAULT_SIZE: Gib = Gib(100);

/// An invalid size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CapacityError {
    #[error("capacity_range.{field} is not valid")]
    NoSize {
        /// `required_bytes` or `limit_bytes`.
        field: &'static str,
        #[source]
        cause: SizeError,
    },
    #[error("capacity_range has neither required_bytes nor limit_bytes; set one of them above 0")]
    Empty,
    #[error("the request has no capacity_range")]
    Missing,
    #[error(
        "capacity_range.limit_bytes is {limit}, but the volume would have {size}, because EBS sizes are whole GiB; raise \
             limit_bytes, or request less"
    )]
    AboveLimit { size: Gib, limit: u64 },
    #[error(
        "capacity_range asks for {size}, but {fs_type} with blocks of {block} bytes can have at most {most}; use ext4 or xfs, or request \
             less"
    )]
    FileSystem { size: Gib, fs_type: FsType, block: u64, most: Gib },
}

impl IntoStatus for CapacityError {
    fn meaning(&self) -> Meaning {
        match self {
            Self::NoSize { cause: SizeError::Negative(_), .. } | Self::Empty | Self::Missing => {
                Meaning::InvalidArgument
            }
            Self::NoSize { cause: SizeError::TooLarge(_), .. } | Self::AboveLimit { .. } | Self::FileSystem { .. } => {
                Meaning::OutOfRange
            }
        }
    }
}

/// Returns the required size, rounded up to GiB, and the limit in bytes. 0 means unset.
fn read(range: &CapacityRange) -> Result<(Option<Gib>, Option<u64>), CapacityError> {
    let bytes = |field, wire| Bytes::from_wire(wire).map_err(|cause| CapacityError::NoSize { field, cause });
    let required = bytes("required_bytes", range.required_bytes)?;
    let limit = bytes("limit_bytes", range.limit_bytes)?;
    let size = required.to_gib_ceil().map_err(|cause| CapacityError::NoSize { field: "required_bytes", cause })?;
    let (size, limit) = ((size.0 > 0).then_some(size), (limit.0 > 0).then_some(limit.0));
    match (size, limit) {
        (None, None) => Err(CapacityError::Empty),
        (Some(size), Some(limit)) if size.bytes().0 > limit => Err(CapacityError::AboveLimit { size, limit }),
        other => Ok(other),
    }
}

/// Returns the size of a new volume: 100 GiB without a range, and the type's minimum if the range sets only a limit.
pub fn for_new_volume(
    range: Option<&CapacityRange>,
    volume_type: &VolumeType,
) -> Result<CapacityRequest, CapacityError> {
    let Some(range) = range else {
        return Ok(CapacityRequest { required: None, fallback: DEFAULT_SIZE, limit: None });
    };
    let (required, limit) = read(range)?;
    let least = volume_type.size_range().map_or(Gib(1), |(least, _)| least);
    if let (None, Some(limit)) = (required, limit)
        && least.bytes().0 > limit
    {
        return Err(CapacityError::AboveLimit { size: least, limit });
    }
    Ok(CapacityRequest { required, fallback: least, limit: limit.map(whole_gib) })
}

/// Refuses a size that mke2fs rejects, because ext2 and ext3 have 32-bit block numbers.
pub fn check_file_systems(
    capacity: &CapacityRequest,
    accesses: &[Access],
    format: &FormatOptions,
) -> Result<(), CapacityError> {
    let size = capacity.required.unwrap_or(capacity.fallback);
    let block = block_size(format);
    let most = whole_gib(u64::from(u32::MAX).saturating_mul(block));
    for fs_type in accesses.iter().filter_map(Access::linux_file_system) {
        if matches!(fs_type, FsType::Ext2 | FsType::Ext3) && size > most {
            return Err(CapacityError::FileSystem { size, fs_type, block, most });
        }
    }
    Ok(())
}

/// Returns the size to which a volume must grow.
pub fn for_expansion(range: Option<&CapacityRange>) -> Result<Gib, CapacityError> {
    let (required, _) = read(range.ok_or(CapacityError::Missing)?)?;
    required.ok_or(CapacityError::Empty)
}

/// Returns the number of whole GiB within a limit, at most `u32::MAX`, which exceeds every EBS volume.
fn whole_gib(limit: u64) -> Gib {
    Gib(u32::try_from(limit / ebs_ec2::GIB).unwrap_or(u32::MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GIB: i64 = 1 << 30;

    fn range(required_bytes: i64, limit_bytes: i64) -> Option<CapacityRange> {
        Some(CapacityRange { required_bytes, limit_bytes })
    }

    fn new(range: Option<CapacityRange>) -> Result<CapacityRequest, CapacityError> {
        for_new_volume(range.as_ref(), &VolumeType::Gp3)
    }

    #[test]
    fn size_is_rounded_up_to_gib_and_defaults_to_100_gib() {
        assert_eq!(new(range(1, 0)).expect("fits").required, Some(Gib(1)));
        assert_eq!(new(range(GIB + 1, 0)).expect("fits").required, Some(Gib(2)));
        let absent = new(None).expect("fits");
        assert_eq!((absent.required, absent.fallback, absent.limit), (None, Gib(100), None));
    }

    #[test]
    fn limit_below_the_rounded_size_is_out_of_range() {
        let error = new(range(GIB + 1, 2 * GIB - 1)).expect_err("no whole GiB fits");
        assert_eq!(error.meaning(), Meaning::OutOfRange);
        assert!(new(range(GIB + 1, 2 * GIB)).is_ok());
        assert_eq!(new(range(i64::MAX, 0)).expect_err("too large").meaning(), Meaning::OutOfRange);
    }

    #[test]
    fn size_is_the_minimum_of_the_type_if_only_a_limit_is_set() {
        let got = for_new_volume(range(0, 10 * GIB).as_ref(), &VolumeType::Io2).expect("fits");
        assert_eq!((got.required, got.fallback, got.limit), (None, Gib(4), Some(Gib(10))));
        let error = for_new_volume(range(0, 3 * GIB).as_ref(), &VolumeType::Io2).expect_err("io2 has at least 4 GiB");
        assert_eq!(error.meaning(), Meaning::OutOfRange);
    }

    /// Creation and expansion refuse a negative field, and a range without fields (0 means unset).
    #[test]
    fn zero_or_negative_size_is_refused() {
        for bad in [range(0, 0), range(-1, 0), range(GIB, -1)] {
            assert_eq!(new(bad).expect_err("refused").meaning(), Meaning::InvalidArgument, "{bad:?}");
            assert_eq!(for_expansion(bad.as_ref()).expect_err("refused").meaning(), Meaning::InvalidArgument);
        }
        assert_eq!(for_expansion(None), Err(CapacityError::Missing));
        assert_eq!(for_expansion(range(0, GIB).as_ref()), Err(CapacityError::Empty));
    }

    proptest! {
        #[test]
        fn accepted_size_is_within_the_requested_range(required in 1_i64..(1 << 45), limit in 1_i64..(1 << 45)) {
            if let Ok(got) = new(range(required, limit)) {
                let size = got.required.expect("was asked for").bytes().to_wire();
                prop_assert!(size >= required && size <= limit);
                prop_assert!(size - required < GIB);
            } else {
                prop_assert!((required + GIB - 1) / GIB * GIB > limit);
            }
        }
    }
}
