//! Queries and changes devices and reparse points with control codes.

use std::fs::File;
use std::os::windows::io::AsRawHandle;
use std::ptr::null_mut;

use windows_sys::Win32::Storage::FileSystem::MAXIMUM_REPARSE_DATA_BUFFER_SIZE;
use windows_sys::Win32::System::IO::DeviceIoControl;
use windows_sys::Win32::System::Ioctl::{
    FSCTL_GET_REPARSE_POINT, FSCTL_SET_REPARSE_POINT, IOCTL_STORAGE_GET_DEVICE_NUMBER, IOCTL_STORAGE_QUERY_PROPERTY,
};

use super::wide::last_error;
use crate::types::DiskNumber;

const DEVICE_ID_PROPERTY: u32 = 2;
/// Maximum size of a descriptor in bytes. No disk has so many identifiers.
const LONGEST_DESCRIPTOR: usize = 16 * 1024;
/// The position of the number in `STORAGE_DEVICE_NUMBER`, which has type, number and partition.
const NUMBER: std::ops::Range<usize> = 4..8;

pub(super) fn number(device: &File) -> Result<Option<DiskNumber>, u32> {
    let answer = control(device, IOCTL_STORAGE_GET_DEVICE_NUMBER, &[], 12)?;
    let bytes = answer.get(NUMBER).and_then(|bytes| bytes.try_into().ok());
    Ok(bytes.map(|bytes| DiskNumber(u32::from_le_bytes(bytes))))
}

pub(super) fn ids(device: &File) -> Result<Vec<u8>, u32> {
    // The query has a PropertyId, a QueryType (standard), one byte of parameters and its padding.
    let query = [DEVICE_ID_PROPERTY.to_le_bytes(), [0; 4], [0; 4]].concat();
    control(device, IOCTL_STORAGE_QUERY_PROPERTY, &query, LONGEST_DESCRIPTOR)
}

pub(super) fn reparse_data(entry: &File) -> Result<Vec<u8>, u32> {
    let longest = usize::try_from(MAXIMUM_REPARSE_DATA_BUFFER_SIZE).unwrap_or(LONGEST_DESCRIPTOR);
    control(entry, FSCTL_GET_REPARSE_POINT, &[], longest)
}

pub(super) fn set_reparse_data(entry: &File, data: &[u8]) -> Result<(), u32> {
    control(entry, FSCTL_SET_REPARSE_POINT, data, 0).map(drop)
}

fn control(file: &File, code: u32, input: &[u8], longest: usize) -> Result<Vec<u8>, u32> {
    let mut output = vec![0_u8; longest];
    let mut written = 0_u32;
    let invalid = |_| crate::host::code::INVALID_NAME;
    let (given, taken) = (u32::try_from(input.len()).map_err(invalid)?, u32::try_from(output.len()).map_err(invalid)?);
    // SAFETY: both buffers have the given lengths and live until after the call, which is synchronous because the
    // handle was not opened for overlapped use. The call writes `written` only while it runs. The kernel treats both
    // buffers as bytes, so they need no alignment.
    let done = unsafe {
        DeviceIoControl(
            file.as_raw_handle(),
            code,
            input.as_ptr().cast(),
            given,
            output.as_mut_ptr().cast(),
            taken,
            &raw mut written,
            null_mut(),
        )
    };
    if done == 0 {
        return Err(last_error());
    }
    output.truncate(usize::try_from(written).unwrap_or(longest));
    Ok(output)
}
