//! Properties that QEMU's NVMe disks have no options for: Amazon's vendor id and model, and a size that changes while
//! the disk is in use.
//!
//! QEMU uses two structures in its memory for Identify and for the bounds of reads and writes. The controller's begins
//! with the vendor ids and the serial number, and the namespace's with three copies of its size. This module finds them
//! by the serial number, and rewrites them while the guest is paused. It requires that both are in one allocation, as
//! in QEMU 7.2, and fails otherwise.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use anyhow::{Context, ensure};

/// Block size in bytes, of QEMU's disks and of EBS.
const BLOCK: u64 = 512;
const VENDOR: [u8; 4] = [0x0f, 0x1d, 0x0f, 0x1d];
const MODEL: &str = "Amazon Elastic Block Store";
const QEMU_MODEL: &str = "QEMU NVMe Ctrl";
/// Offsets in Identify Controller (NVM Express 1.4, figure 247).
const SERIAL_AT: usize = 4;
const SERIAL_BYTES: usize = 20;
const MODEL_AT: usize = 24;
const MODEL_BYTES: usize = 40;
/// Optional admin commands, including shadow doorbells. They are disabled, because QEMU 7.2 loses requests of a guest
/// that uses shadow doorbells.
const OPTIONAL_AT: usize = 256;
/// Maximum distance of the namespace's structure from the controller's.
const NEAR: usize = 64 << 10;
/// The guest's own memory is larger than this, QEMU's heap is smaller.
const LARGEST_HEAP: u64 = 256 << 20;

/// Rewrites the disk with this serial number: it becomes an EBS volume of `new` bytes. `old` is its present size.
///
/// # Errors
/// The memory of the process does not contain exactly one such disk.
pub fn rewrite(pid: u32, serial: &str, old: u64, new: u64) -> anyhow::Result<()> {
    let memory = File::options().read(true).write(true).open(format!("/proc/{pid}/mem")).context("QEMU's memory")?;
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).context("the map of QEMU's memory")?;
    let mut rewritten = 0_usize;
    for (start, length) in maps.lines().filter_map(heap) {
        let mut bytes = vec![0; usize::try_from(length)?];
        // Parts of the heap may be unmapped meanwhile.
        if memory.read_exact_at(&mut bytes, start).is_err() {
            continue;
        }
        for patch in patches(&bytes, serial, old, new) {
            for (at, text) in patch {
                memory.write_all_at(&text, start + u64::try_from(at)?).context("write QEMU's memory")?;
            }
            rewritten += 1;
        }
    }
    ensure!(rewritten == 1, "{rewritten} disks with serial number {serial} and {old} bytes in QEMU's memory, not one");
    Ok(())
}

/// Returns start and length of a line of the memory map if it is QEMU's own anonymous memory.
fn heap(line: &str) -> Option<(u64, u64)> {
    let mut words = line.split_whitespace();
    let (span, mode, inode) = (words.next()?, words.next()?, words.nth(2)?);
    let is_anonymous = inode == "0" && words.next().is_none_or(|name| name == "[heap]");
    let (start, end) = span.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    (mode.starts_with("rw") && is_anonymous && end - start < LARGEST_HEAP).then_some((start, end - start))
}

fn padded(text: &str, length: usize) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(length, b' ');
    bytes
}

fn size(bytes: u64) -> Vec<u8> {
    // Size, capacity and use, in blocks.
    (bytes / BLOCK).to_le_bytes().repeat(3)
}

/// Returns the bytes and addresses to write, for each disk that is found.
fn patches(bytes: &[u8], serial: &str, old: u64, new: u64) -> Vec<Vec<(usize, Vec<u8>)>> {
    let (serial, is) = (padded(serial, SERIAL_BYTES), padded(MODEL, MODEL_BYTES));
    let was = padded(QEMU_MODEL, MODEL_BYTES);
    let mut found = Vec::new();
    for at in places(bytes, &serial) {
        let Some(base) = at.checked_sub(SERIAL_AT) else { continue };
        let model = bytes.get(base + MODEL_AT..base + MODEL_AT + MODEL_BYTES);
        if model.is_none_or(|model| model != was && model != is) {
            continue;
        }
        let from = base.saturating_sub(NEAR);
        let near = &bytes[from..bytes.len().min(base + NEAR)];
        let [namespace] = places(near, &size(old))[..] else { continue };
        found.push(vec![
            (base, VENDOR.to_vec()),
            (base + MODEL_AT, is.clone()),
            (base + OPTIONAL_AT, vec![0; 2]),
            (from + namespace, size(new)),
        ]);
    }
    found
}

fn places(bytes: &[u8], wanted: &[u8]) -> Vec<usize> {
    let first = wanted[0];
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == first).map(|(at, _)| at);
    starts.filter(|at| bytes[*at..].starts_with(wanted)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disk_is_rewritten_as_an_ebs_volume_of_the_new_size() {
        let mut memory = vec![0_u8; 100_000];
        memory[5_004..5_024].copy_from_slice(&padded("vol0a", 20));
        memory[5_024..5_064].copy_from_slice(&padded(QEMU_MODEL, 40));
        memory[9_000..9_024].copy_from_slice(&size(1 << 40));
        let found = patches(&memory, "vol0a", 1 << 40, 1 << 30);
        assert_eq!(found.len(), 1);
        for (at, text) in &found[0] {
            memory[*at..at + text.len()].copy_from_slice(text);
        }
        assert_eq!(&memory[5_000..5_004], &[0x0f, 0x1d, 0x0f, 0x1d]);
        assert!(memory[5_024..].starts_with(b"Amazon Elastic Block Store "));
        assert_eq!(memory[9_000..9_024], size(1 << 30));
        assert_eq!(patches(&memory, "vol0a", 1 << 30, 2 << 30).len(), 1, "and it can grow");
        assert!(patches(&memory, "vol0b", 1 << 30, 2 << 30).is_empty());
    }

    #[test]
    fn only_anonymous_writable_memory_of_qemu_is_searched() {
        assert_eq!(heap("7f0000000000-7f0000001000 rw-p 00000000 00:00 0"), Some((0x7f00_0000_0000, 0x1000)));
        assert_eq!(heap("1000-3000 rw-p 00000000 00:00 0   [heap]"), Some((0x1000, 0x2000)));
        assert_eq!(heap("1000-3000 rw-p 00000000 00:00 0   [stack]"), None);
        assert_eq!(heap("1000-3000 r--p 00000000 00:00 0"), None);
        assert_eq!(heap("1000-3000 rw-p 00000000 fe:00 12 /usr/lib/x"), None);
        assert_eq!(heap("7f0000000000-7f0040000000 rw-p 00000000 00:00 0"), None);
    }
}
