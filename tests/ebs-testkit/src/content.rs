//! Reproducible data from a seed, so that tests can compare two reads by their hashes.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest, Sha256};

const BLOCK: usize = 64 * 1024;

/// Pseudo-random bytes from a seed (xorshift). They are cheap to create, and every block is different.
#[derive(Debug, Clone)]
pub struct Pattern(u64);

impl Pattern {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// Fills `bytes` with the next bytes of the stream.
    pub fn fill(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(8) {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            chunk.copy_from_slice(&self.0.to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Writes the first `length` bytes of a seed's stream to a new file, syncs it to the disk and returns the hash.
/// Replaces an existing file.
pub fn write_file(path: &Path, seed: u64, length: u64) -> io::Result<String> {
    let file = File::create(path)?;
    write_to(file, seed, length)
}

/// Writes the first `length` bytes of a seed's stream to the start of an existing file or block device. Never creates a
/// file.
pub fn write_device(path: &Path, seed: u64, length: u64) -> io::Result<String> {
    write_to(OpenOptions::new().write(true).open(path)?, seed, length)
}

fn write_to(mut file: File, seed: u64, length: u64) -> io::Result<String> {
    let mut pattern = Pattern::new(seed);
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    let mut left = length;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        pattern.fill(&mut block[..size]);
        file.write_all(&block[..size])?;
        hash.update(&block[..size]);
        left -= u64::try_from(size).unwrap_or(left);
    }
    file.sync_all()?;
    Ok(hex::encode(hash.finalize()))
}

/// Returns the hash of the first `length` bytes of a file or block device.
pub fn hash_start(path: &Path, length: u64) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hash = Sha256::new();
    let mut block = vec![0; BLOCK];
    let mut left = length;
    while left > 0 {
        let size = usize::try_from(left).unwrap_or(BLOCK).min(BLOCK);
        file.read_exact(&mut block[..size])?;
        hash.update(&block[..size]);
        left -= u64::try_from(size).unwrap_or(left);
    }
    Ok(hex::encode(hash.finalize()))
}

pub fn hash_file(path: &Path) -> io::Result<String> {
    hash_start(path, std::fs::metadata(path)?.len())
}

pub fn size_of(path: &Path) -> io::Result<u64> {
    File::open(path)?.seek(SeekFrom::End(0))
}
