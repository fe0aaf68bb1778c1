//! Numbers of disks as old versions write them: in decimal.

use winstorage::types::DiskNumber;

/// Text that is no number of a disk.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no disk number: decimal digits up to 4294967295 are expected")]
pub(crate) struct NoDiskNumber {
    text: String,
}

/// Reads digits and nothing else. What does not fit is refused and never cut: another disk would be meant.
pub(crate) fn disk_number(text: &str) -> Result<DiskNumber, NoDiskNumber> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    number.map(DiskNumber).ok_or_else(|| NoDiskNumber { text: text.to_owned() })
}

/// Bytes as the protocol has them.
pub(crate) fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A disk number in text is digits that fit 32 bits; anything else is refused, and nothing is cut to another disk.
    #[test]
    fn a_disk_number_in_text_is_digits_that_fit() {
        for (text, number) in [("0", 0), ("7", 7), ("007", 7), ("4294967295", u32::MAX)] {
            assert_eq!(disk_number(text), Ok(DiskNumber(number)));
        }
        for text in ["", "4294967296", "18446744073709551616", "-1", "+1", " 1", "1 ", "0x1", "1.0", "a", "١"] {
            assert!(disk_number(text).is_err(), "{text:?} was taken");
        }
    }

    proptest! {
        /// Each number is read as it is written.
        #[test]
        fn each_disk_number_is_read_as_it_is_written(number: u32) {
            prop_assert_eq!(disk_number(&number.to_string()), Ok(DiskNumber(number)));
        }
    }

    #[test]
    fn bytes_beyond_the_protocol_are_its_most() {
        assert_eq!(bytes(u64::MAX), i64::MAX);
        assert_eq!(bytes(1 << 40), 1 << 40);
    }
}
