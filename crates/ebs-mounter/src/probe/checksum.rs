//! CRC-32C (Castagnoli), which ext4 and xfs protect their superblocks with.

/// The reversed polynomial.
const POLYNOMIAL: u32 = 0x82f6_3b78;

/// Continues a checksum over more bytes; no inversion at either end.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_checksum_gives_the_published_check_value() {
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }
}
