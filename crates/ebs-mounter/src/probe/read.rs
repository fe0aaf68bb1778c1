//! Reads pieces of a device, and computes their checksums.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// A source of bytes that can be read at an offset. A read past its end is an error.
pub(crate) trait ReadAt {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
}

impl ReadAt for File {
    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        FileExt::read_exact_at(self, buffer, offset)
    }
}

pub(crate) struct Area<'a> {
    bytes: &'a dyn ReadAt,
    size: u64,
}

impl<'a> Area<'a> {
    pub(crate) fn new(bytes: &'a dyn ReadAt, size: u64) -> Self {
        Self { bytes, size }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn read(&self, offset: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut buffer = vec![0; length];
        self.bytes
            .read_exact_at(&mut buffer, offset)
            .map_err(|error| io::Error::new(error.kind(), format!("{length} bytes at byte {offset}: {error}")))?;
        Ok(buffer)
    }

    /// Reads like [`Area::read`], but returns `None` if the area is too short.
    pub(crate) fn read_within(&self, offset: u64, length: usize) -> io::Result<Option<Vec<u8>>> {
        let ends = u64::try_from(length).ok().and_then(|length| offset.checked_add(length));
        if ends.is_none_or(|end| end > self.size) {
            return Ok(None);
        }
        self.read(offset, length).map(Some)
    }
}

/// Reads a little-endian number (`be16`: big-endian) from a buffer that is known to be long enough.
pub(crate) fn le16(buffer: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([buffer[at], buffer[at + 1]])
}

pub(crate) fn le32(buffer: &[u8], at: usize) -> u32 {
    u32::from(le16(buffer, at)) | u32::from(le16(buffer, at + 2)) << 16
}

pub(crate) fn le64(buffer: &[u8], at: usize) -> u64 {
    u64::from(le32(buffer, at)) | u64::from(le32(buffer, at + 4)) << 32
}

pub(crate) fn be16(buffer: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([buffer[at], buffer[at + 1]])
}

pub(crate) fn be32(buffer: &[u8], at: usize) -> u32 {
    u32::from(be16(buffer, at)) << 16 | u32::from(be16(buffer, at + 2))
}

pub(crate) fn be64(buffer: &[u8], at: usize) -> u64 {
    u64::from(be32(buffer, at)) << 32 | u64::from(be32(buffer, at + 4))
}

/// CRC-32C, the checksum of ext4, xfs and btrfs superblocks.
const CASTAGNOLI: u32 = 0x82f6_3b78;
/// CRC-32, the checksum of GUID partition tables.
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
    use super::super::tests::Zeros;
    use super::*;

    #[test]
    fn numbers_of_either_byte_order_are_read() {
        let bytes = [0xff, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!((le16(&bytes, 1), le32(&bytes, 1), le64(&bytes, 1)), (0x0201, 0x0403_0201, 0x0807_0605_0403_0201));
        assert_eq!((be16(&bytes, 1), be32(&bytes, 1), be64(&bytes, 1)), (0x0102, 0x0102_0304, 0x0102_0304_0506_0708));
    }

    #[test]
    fn read_past_the_end_of_an_area_returns_none() {
        let area = Area::new(&Zeros, 4096);
        assert_eq!(area.read_within(4088, 8).unwrap(), Some(vec![0; 8]));
        assert_eq!(area.read_within(4089, 8).unwrap(), None);
        assert_eq!(area.read_within(u64::MAX, 8).unwrap(), None);
        assert_eq!(area.size(), 4096);
    }

    #[test]
    fn checksums_match_published_check_values() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(!crc32c(!0, b"123456789"), 0xe306_9283);
    }
}
