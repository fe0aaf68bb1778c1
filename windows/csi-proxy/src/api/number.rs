//! Disk numbers of old versions, which are decimal strings.

use winstorage::types::DiskNumber;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a disk number; use decimal digits, at most 4294967295")]
pub(crate) struct NoDiskNumber {
    text: String,
}

/// Parses a disk number, which consists of digits only. Rejects a number that is too large instead of truncating it,
/// because the truncated number would be another disk.
pub(crate) fn disk_number(text: &str) -> Result<DiskNumber, NoDiskNumber> {
    let number = text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    number.map(DiskNumber).ok_or_else(|| NoDiskNumber { text: text.to_owned() })
}

pub(crate) fn bytes(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn disk_number_is_parsed_from_digits_that_fit_32_bits() {
        for (text, number) in [("0", 0), ("7", 7), ("007", 7), ("4294967295", u32::MAX)] {
            assert_eq!(disk_number(text), Ok(DiskNumber(number)));
        }
        for text in ["", "4294967296", "18446744073709551616", "-1", "+1", " 1", "1 ", "0x1", "1.0", "a", "١"] {
            assert!(disk_number(text).is_err(), "{text:?} was taken");
        }
    }

    proptest! {
        #[test]
        fn disk_number_round_trips_through_text(number: u32) {
            prop_assert_eq!(disk_number(&number.to_string()), Ok(DiskNumber(number)));
        }
    }

    #[test]
    fn byte_count_saturates_at_the_protocol_maximum() {
        assert_eq!(bytes(u64::MAX), i64::MAX);
        assert_eq!(bytes(1 << 40), 1 << 40);
    }
}
