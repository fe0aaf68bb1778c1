//! Sizes: bytes in CSI messages and on devices, GiB in EC2.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The number of bytes in one GiB.
pub const GIB: u64 = 1 << 30;

/// Why EC2 or CSI cannot express a size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    #[error("a size of {0} bytes is negative")]
    Negative(i64),
    #[error("a size of {0} bytes is more than EC2 can express")]
    TooLarge(u64),
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// Converts the signed count of a CSI message.
    pub fn from_wire(bytes: i64) -> Result<Self, SizeError> {
        u64::try_from(bytes).map(Self).map_err(|_| SizeError::Negative(bytes))
    }

    /// Returns the signed count for a CSI message. A larger count becomes the maximum of `i64`.
    pub fn to_wire(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// Returns the size in GiB, rounded up. It is at most 2^31 - 1, the maximum of an EC2 size field.
    pub fn to_gib_ceil(self) -> Result<Gib, SizeError> {
        let gib = self.0.div_ceil(GIB);
        u32::try_from(gib).ok().filter(|g| i32::try_from(*g).is_ok()).map(Gib).ok_or(SizeError::TooLarge(self.0))
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", self.0)
    }
}

/// A number of GiB (2^30 bytes), EC2's unit. It is at most 2^31 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Gib(pub u32);

impl Gib {
    /// Returns the size in bytes, which cannot overflow.
    pub fn bytes(self) -> Bytes {
        Bytes(u64::from(self.0) * GIB)
    }
}

impl fmt::Display for Gib {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GiB", self.0)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn one_byte_rounds_up_to_one_gib() {
        assert_eq!(Bytes(1).to_gib_ceil(), Ok(Gib(1)));
        assert_eq!(Bytes(0).to_gib_ceil(), Ok(Gib(0)));
        assert_eq!(Bytes(GIB + 1).to_gib_ceil(), Ok(Gib(2)));
    }

    #[test]
    fn size_above_ec2_maximum_is_rejected_not_truncated() {
        assert!(Bytes(u64::MAX).to_gib_ceil().is_err());
        assert_eq!(Bytes((1 << 31) * GIB - GIB).to_gib_ceil(), Ok(Gib((1 << 31) - 1)));
        assert!(Bytes((1 << 31) * GIB).to_gib_ceil().is_err());
    }

    #[test]
    fn negative_size_is_rejected() {
        assert_eq!(Bytes::from_wire(-1), Err(SizeError::Negative(-1)));
    }

    proptest! {
        #[test]
        fn rounding_up_never_loses_a_byte_or_adds_a_gib(bytes in 0..(1_u64 << 60)) {
            if let Ok(gib) = Bytes(bytes).to_gib_ceil() {
                prop_assert!(gib.bytes().0 >= bytes);
                prop_assert!(gib.bytes().0 - bytes < GIB);
            }
        }
    }
}
