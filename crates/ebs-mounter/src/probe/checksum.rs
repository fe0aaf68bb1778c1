//! CRC-32C (Castagnoli), the checksum of ext4, xfs and btrfs superblocks, and the CRC-32 of partition tables.

const CASTAGNOLI: u32 = 0x82f6_3b78;
const IEEE: u32 = 0xedb8_8320;

/// Continues a checksum over more bytes. Inverts neither the seed nor the result.
pub(crate) fn crc32c(seed: u32, bytes: &[u8]) -> u32 {
    remainder(CASTAGNOLI, seed, bytes)
}

pub(crate) fn crc32(bytes: &[u8]) -> u32 {
    !remainder(IEEE, !0, bytes)
}

fn remainder(polynomial: u32, seed: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(seed, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 1 { crc >> 1 ^ polynomial } else { crc >> 1 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_match_published_check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }
}
