//! Block devices: numbers, sizes, and the serial number and statistics of an NVMe controller.

use std::ffi::c_void;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};

use rustix::ioctl::{Getter, Ioctl, IoctlOutput, Opcode, ioctl, opcode};

use crate::os::DeviceNumber;

/// `_IOR(0x12, 114, size_t)`: the size of a block device in bytes.
const BLKGETSIZE64: Opcode = opcode::read::<usize>(0x12, 114);
/// `_IO(0x12, 94)`: writes an `int`, which is not 0 if the device is read-only.
const BLKROGET: Opcode = opcode::none(0x12, 94);
/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const NVME_ADMIN: Opcode = opcode::read_write::<NvmeAdminCommand>(b'N', 0x41);

pub(crate) fn block_device_number(metadata: &std::fs::Metadata) -> Option<DeviceNumber> {
    metadata.file_type().is_block_device().then(|| DeviceNumber::of(metadata.rdev()))
}

pub(crate) fn block_size(device: &File) -> io::Result<u64> {
    // SAFETY: the opcode is BLKGETSIZE64, for which the kernel writes one u64 and nothing else. On a descriptor that is
    // not a block device it fails with ENOTTY and writes nothing.
    let size = unsafe { ioctl(device, Getter::<BLKGETSIZE64, u64>::new()) }?;
    Ok(size)
}

pub(crate) fn is_block_read_only(device: &File) -> io::Result<bool> {
    // SAFETY: the opcode is BLKROGET, for which the kernel writes one C int and nothing else. On a descriptor that is
    // not a block device it fails with ENOTTY and writes nothing.
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

/// The ioctl that runs a command. Its result is the status of the controller; 0 is success.
struct NvmeAdmin<'command>(&'command mut NvmeAdminCommand);

// SAFETY: the opcode is NVME_IOCTL_ADMIN_CMD, and the pointer is to its argument, which has the kernel's layout (72
// bytes, checked by a test) and is borrowed for as long as this value lives. The caller must own the `data_length`
// bytes at `address`. All callers are in this file, because the type is private.
unsafe impl Ioctl for NvmeAdmin<'_> {
    type Output = IoctlOutput;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        NVME_ADMIN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        std::ptr::from_mut(self.0).cast()
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _argument: *mut c_void) -> rustix::io::Result<IoctlOutput> {
        Ok(out)
    }
}

/// Length of every response that is requested here, in bytes.
const ANSWER: usize = 4096;
const ANSWER_BYTES: u32 = 4096;
const TIMEOUT_MILLISECONDS: u32 = 5_000;

/// Builds "identify controller" (admin command 6, CNS 1). Bytes 4 to 23 of the response are the serial number.
fn identify_controller() -> NvmeAdminCommand {
    NvmeAdminCommand { opcode: 6, dwords_10_15: [1, 0, 0, 0, 0, 0], ..NvmeAdminCommand::default() }
}

/// Builds "get log page" (admin command 2, page 0xD0). The length is the number of 4-byte words minus one.
fn statistics_page() -> NvmeAdminCommand {
    let words = 0xD0 | ((ANSWER_BYTES / 4 - 1) << 16);
    NvmeAdminCommand { opcode: 2, namespace: 1, dwords_10_15: [words, 0, 0, 0, 0, 0], ..NvmeAdminCommand::default() }
}

/// Sends a command to the controller. The command must change nothing and return 4096 bytes.
fn ask_controller(device: &File, command: NvmeAdminCommand) -> io::Result<Box<[u8; ANSWER]>> {
    let mut answer = Box::new([0_u8; ANSWER]);
    let mut command = NvmeAdminCommand {
        address: u64::try_from(answer.as_mut_ptr().expose_provenance()).map_err(io::Error::other)?,
        data_length: ANSWER_BYTES,
        timeout_milliseconds: TIMEOUT_MILLISECONDS,
        ..command
    };
    // SAFETY: the kernel writes `data_length` = 4096 bytes to `address`. This is the address of `answer`, which has
    // that length, is writable, outlives the call, and is not otherwise used during the call. On a device that is not
    // an NVMe device, the ioctl fails with ENOTTY.
    let status = unsafe { ioctl(device, NvmeAdmin(&mut command)) }?;
    if status == 0 {
        Ok(answer)
    } else {
        Err(io::Error::other(format!("the NVMe controller returned status {status:#x}")))
    }
}

pub(crate) fn nvme_serial(device: &File) -> io::Result<String> {
    Ok(serial_in(&*ask_controller(device, identify_controller())?))
}

pub(crate) fn serial_in(page: &[u8; ANSWER]) -> String {
    String::from_utf8_lossy(&page[4..24]).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

pub(crate) fn nvme_statistics_page(device: &File) -> io::Result<Box<[u8; ANSWER]>> {
    ask_controller(device, statistics_page())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nvme_admin_command_matches_the_kernel_layout() {
        assert_eq!(size_of::<NvmeAdminCommand>(), 72);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, address), 24);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, data_length), 36);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, dwords_10_15), 40);
        assert_eq!(std::mem::offset_of!(NvmeAdminCommand, timeout_milliseconds), 64);
    }

    #[test]
    fn statistics_request_encodes_its_word_count_minus_one() {
        let command = statistics_page();
        assert_eq!((command.opcode, command.namespace, command.dwords_10_15[0]), (2, 1, 0x03FF_00D0));
        assert_eq!(usize::try_from(ANSWER_BYTES).unwrap(), ANSWER);
        assert_eq!(NVME_ADMIN, 0xC048_4E41);
        assert_eq!((identify_controller().opcode, identify_controller().dwords_10_15[0]), (6, 1));
    }

    #[test]
    fn block_device_query_of_a_regular_file_is_an_error() {
        let file = tempfile::tempfile().unwrap();
        assert!(nvme_serial(&file).is_err());
        assert!(nvme_statistics_page(&file).is_err());
        assert!(block_size(&file).is_err());
        assert!(is_block_read_only(&file).is_err());
        assert_eq!(block_device_number(&file.metadata().unwrap()), None);
    }
}
