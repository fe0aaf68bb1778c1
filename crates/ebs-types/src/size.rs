//! Sizes: bytes on the wire and on devices, GiB in EC2.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Bytes in one GiB.
pub const GIB: u64 = 1 << 30;

/// A size that cannot be expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// Negative byte counts have no meaning.
    #[error("a size of {0} bytes is negative")]
    Negative(i64),
    /// More GiB than EC2's 32-bit field can carry.
    #[error("a size of {0} bytes is more than EC2 can express")]
    TooLarge(u64),
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Bytes(pub u64);

impl Bytes {
    /// From the signed count of the CSI wire.
    ///
    /// # Errors
    /// [`SizeError::Negative`].
    pub fn from_wire(bytes: i64) -> Result<Self, SizeError> {
        u64::try_from(bytes).map(Self).map_err(|_| SizeError::Negative(bytes))
    }

    /// As the signed count of the CSI wire, saturating at its maximum.
    pub fn to_wire(self) -> i64 {
        i64::try_from(self.0).unwrap_or(i64::MAX)
    }

    /// The whole GiB that hold these bytes (rounded up); 0 bytes are 0 GiB.
    ///
    /// # Errors
    /// [`SizeError::TooLarge`] above 2^31 - 1 GiB, the most an EC2 size field carries.
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

/// A number of GiB (2^30 bytes), the unit of EC2; at most 2^31 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Gib(pub u32);

impl Gib {
    /// The same size in bytes; cannot overflow.
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
    fn one_byte_is_one_gib() {
        assert_eq!(Bytes(1).to_gib_ceil(), Ok(Gib(1)));
        assert_eq!(Bytes(0).to_gib_ceil(), Ok(Gib(0)));
        assert_eq!(Bytes(GIB + 1).to_gib_ceil(), Ok(Gib(2)));
    }

    /// A size that EC2 cannot express is refused, never cut.
    #[test]
    fn more_than_an_ec2_size_field_is_refused() {
        assert!(Bytes(u64::MAX).to_gib_ceil().is_err());
        assert_eq!(Bytes((1 << 31) * GIB - GIB).to_gib_ceil(), Ok(Gib((1 << 31) - 1)));
        assert!(Bytes((1 << 31) * GIB).to_gib_ceil().is_err());
    }

    #[test]
    fn a_negative_size_is_refused() {
        assert_eq!(Bytes::from_wire(-1), Err(SizeError::Negative(-1)));
    }

    proptest! {
        /// Bytes are rounded up to whole GiB.
        #[test]
        fn rounding_up_never_loses_a_byte_nor_adds_a_gib(bytes in 0..(1_u64 << 60)) {
            if let Ok(gib) = Bytes(bytes).to_gib_ceil() {
                prop_assert!(gib.bytes().0 >= bytes);
                prop_assert!(gib.bytes().0 - bytes < GIB);
            }
        }
    }
}
