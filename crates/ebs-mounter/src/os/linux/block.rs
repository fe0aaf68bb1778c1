//! Block devices: numbers, sizes and the serial number of an NVMe controller.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::ioctl::{Getter, Opcode, Updater, ioctl, opcode};

use crate::device_number::DeviceNumber;

/// `_IOR(0x12, 114, size_t)`: the size of a block device in bytes.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
/// `_IO(0x12, 94)`: writes an `int` that says whether the device is read-only.
const BLKROGET: Opcode = opcode::none(0x12, 94);
/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const NVME_ADMIN: Opcode = opcode::read_write::<NvmeAdminCommand>(b'N', 0x41);

/// The number of the block device that these are the attributes of; `None` when they are of something else.
pub(crate) fn block_device_number(metadata: &std::fs::Metadata) -> Option<DeviceNumber> {
    metadata.file_type().is_block_device().then(|| DeviceNumber::of(metadata.rdev()))
}

/// The size of an open block device in bytes, as the kernel sees it now.
pub(crate) fn block_size(device: &File) -> io::Result<u64> {
    // SAFETY: the opcode is BLKGETSIZE64, for which the kernel writes one u64 and nothing else; on a descriptor that
    // is no block device it fails with ENOTTY and writes nothing.
    let size = unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }?;
    Ok(size)
}

/// True when the device refuses writes.
pub(crate) fn is_block_read_only(device: &File) -> io::Result<bool> {
    // SAFETY: the opcode is BLKROGET, for which the kernel writes one C int and nothing else; on a descriptor that is
    // no block device it fails with ENOTTY and writes nothing.
    let flag = unsafe { ioctl(device, Getter::<BLKROGET, i32>::new()) }?;
    Ok(flag != 0)
}

/// `struct nvme_admin_cmd` of `linux/nvme_ioctl.h`: 72 bytes.
#[repr(C)]
#[derive(Default)]
struct NvmeAdminCommand {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    dwords_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_length: u32,
    data_length: u32,
    dwords_10_15: [u32; 6],
    timeout_milliseconds: u32,
    result: u32,
}

/// Identify controller is admin command 6 with CNS 1; the answer has 4096 bytes, 20 of them from byte 4 on the serial.
const IDENTIFY: u8 = 6;
const IDENTIFY_CONTROLLER: u32 = 1;
const IDENTIFY_BYTES: u32 = 4096;
const IDENTIFY_TIMEOUT_MILLISECONDS: u32 = 5_000;

/// The serial number that the NVMe controller behind an open namespace reports of itself.
pub(crate) fn nvme_serial(device: &File) -> io::Result<String> {
    let mut answer = Box::new([0_u8; 4096]);
    let mut command = NvmeAdminCommand {
        opcode: IDENTIFY,
        address: u64::try_from(answer.as_mut_ptr().expose_provenance()).map_err(io::Error::other)?,
        data_length: IDENTIFY_BYTES,
        timeout_milliseconds: IDENTIFY_TIMEOUT_MILLISECONDS,
        ..NvmeAdminCommand::default()
    };
    command.dwords_10_15[0] = IDENTIFY_CONTROLLER;
    // SAFETY: the opcode is NVME_IOCTL_ADMIN_CMD and `command` has the layout of its argument (72 bytes, checked by a
    // test). The kernel writes `data_length` = 4096 bytes to `address`, which is `answer`: that long, writable, alive
    // until after the call and not otherwise used during it. Identify changes nothing on the device.
    let status = unsafe { ioctl(device, Updater::<NVME_ADMIN, _>::new(&mut command)) };
    status?;
    Ok(serial_in(&answer))
}

/// The serial number in the page that describes a controller, without the blanks that fill it up.
pub(crate) fn serial_in(page: &[u8; 4096]) -> String {
    String::from_utf8_lossy(&page[4..24]).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nvme_admin_command_has_the_kernels_layout() {
        assert_eq!(size_of::<NvmeAdminCommand>(), 72);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, address), 24);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, data_length), 36);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, dwords_10_15), 40);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, timeout_milliseconds), 64);
    }

    #[test]
    fn what_is_no_nvme_device_has_no_controller_to_ask() {
        let file = tempfile::tempfile().unwrap();
        assert!(nvme_serial(&file).is_err());
        assert!(block_size(&file).is_err());
        assert!(is_block_read_only(&file).is_err());
        assert_eq!(block_device_number(&file.metadata().unwrap()), None);
    }
}
