//! Partition numbers.

use std::fmt;

/// The number of a partition, 1 to 128.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Partition(u8);

/// A text that is not a valid partition number.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("partition {0:?} is not a number from 1 to 128 (0 means the whole disk)")]
pub struct PartitionError(String);

impl Partition {
    /// Parses a decimal number. Returns `None` for 0, which means the whole disk. A sign and leading zeros are ignored.
    pub fn parse(text: &str) -> Result<Option<Self>, PartitionError> {
        let number: i64 = text.parse().map_err(|_| PartitionError(text.to_owned()))?;
        match u8::try_from(number) {
            Ok(0) => Ok(None),
            Ok(number @ 1..=128) => Ok(Some(Self(number))),
            _ => Err(PartitionError(text.to_owned())),
        }
    }

    /// Returns the number of the partition, 1 to 128.
    pub fn number(self) -> u8 {
        self.0
    }
}

impl fmt::Display for Partition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partition_is_a_number_from_1_to_128() {
        for (text, number) in [("1", 1), ("+1", 1), ("007", 7), ("128", 128)] {
            assert_eq!(Partition::parse(text).unwrap().map(Partition::number), Some(number), "{text}");
        }
        for whole in ["0", "-0", "00"] {
            assert_eq!(Partition::parse(whole), Ok(None), "{whole}");
        }
        for bad in ["", "-1", "129", "1p", " 1", "99999999999999999999"] {
            assert!(Partition::parse(bad).is_err(), "{bad:?} was accepted");
        }
    }
}
