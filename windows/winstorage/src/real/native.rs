//! Paths, devices, drives and time of Windows.

use std::os::windows::fs::FileExt;
use std::time::Duration;

use windows_sys::Win32::Storage::FileSystem::{
    GetDiskFreeSpaceExW, GetFileAttributesW, GetVolumeNameForVolumeMountPointW, INVALID_FILE_ATTRIBUTES,
};
use windows_sys::Win32::System::SystemInformation::{GetSystemWindowsDirectoryW, GetTickCount64};
use windows_sys::Win32::System::Threading::Sleep;

use super::entry::OpenEntry;
use super::wide::{last_error, narrow, wide};
use super::{device, open};
use crate::host::{FsEntry, HostError, NativeHost, Space, SpaceHost, code};
use crate::types::{DiskNumber, VolumeGuid, WinPath};

/// Buffer length that is enough for the name of a volume and for the Windows directory.
const NAME_LENGTH: usize = 260;

#[derive(Debug, Clone, Copy)]
pub struct Win32;

impl NativeHost for Win32 {
    fn open(&self, path: &WinPath) -> Result<Box<dyn FsEntry>, HostError> {
        let opened = OpenEntry::at(&format!(r"\\?\{path}"));
        let entry = opened.map_err(|code| HostError::win32("CreateFileW", path, code))?;
        Ok(Box::new(entry))
    }

    fn open_volume(&self, volume: &VolumeGuid) -> Result<Box<dyn FsEntry>, HostError> {
        let opened = OpenEntry::at(&volume.to_string());
        let entry = opened.map_err(|code| HostError::win32("CreateFileW", volume, code))?;
        Ok(Box::new(entry))
    }

    fn path_valid(&self, path: &str) -> Result<bool, HostError> {
        let name = wide(path);
        // SAFETY: the text ends in 0 and lives until after the call.
        if unsafe { GetFileAttributesW(name.as_ptr()) } != INVALID_FILE_ATTRIBUTES {
            return Ok(true);
        }
        match last_error() {
            code::FILE_NOT_FOUND | code::PATH_NOT_FOUND | code::INVALID_NAME => Ok(false),
            code => Err(HostError::win32("GetFileAttributesW", path, code)),
        }
    }

    fn device_number(&self, path: &str) -> Result<DiskNumber, HostError> {
        const STEP: &str = "IOCTL_STORAGE_GET_DEVICE_NUMBER";
        let asked = open::device(path).and_then(|file| device::number(&file));
        let number = asked.map_err(|code| HostError::win32(STEP, path, code))?;
        number.ok_or_else(|| HostError::malformed(STEP, path, "too few bytes"))
    }

    fn device_ids(&self, path: &str) -> Result<Vec<u8>, HostError> {
        let asked = open::device(path).and_then(|file| device::ids(&file));
        asked.map_err(|code| HostError::win32("IOCTL_STORAGE_QUERY_PROPERTY", path, code))
    }

    fn read_disk(&self, disk: DiskNumber, offset: u64, length: usize) -> Result<Vec<u8>, HostError> {
        let device = format!(r"\\.\PhysicalDrive{disk}");
        let failed = |step: &'static str| {
            let object = device.clone();
            move |error: std::io::Error| match error.raw_os_error().and_then(|code| u32::try_from(code).ok()) {
                Some(code) => HostError::win32(step, object, code),
                None => HostError::malformed(step, object, error.to_string()),
            }
        };
        let file = std::fs::File::open(&device).map_err(failed("CreateFileW"))?;
        let mut bytes = vec![0_u8; length];
        let mut filled = 0;
        while filled < length {
            let at = offset.saturating_add(u64::try_from(filled).unwrap_or(u64::MAX));
            match file.seek_read(&mut bytes[filled..], at).map_err(failed("ReadFile"))? {
                0 => break,
                more => filled += more,
            }
        }
        bytes.truncate(filled);
        Ok(bytes)
    }

    fn volume_of_drive(&self, letter: char) -> Result<VolumeGuid, HostError> {
        const STEP: &str = "GetVolumeNameForVolumeMountPointW";
        let object = format!("{letter}:");
        let root = wide(&format!(r"{letter}:\"));
        let mut units = [0_u16; NAME_LENGTH];
        let length = u32::try_from(units.len()).unwrap_or_default();
        // SAFETY: the text ends in 0, the buffer has that many units, and both live until after the call.
        if unsafe { GetVolumeNameForVolumeMountPointW(root.as_ptr(), units.as_mut_ptr(), length) } == 0 {
            return Err(HostError::win32(STEP, object, last_error()));
        }
        VolumeGuid::parse(&narrow(&units)).map_err(|error| HostError::malformed(STEP, object, error.to_string()))
    }

    fn system_drive(&self) -> Result<char, HostError> {
        const STEP: &str = "GetSystemWindowsDirectoryW";
        let mut units = [0_u16; NAME_LENGTH];
        let length = u32::try_from(units.len()).unwrap_or_default();
        // SAFETY: the buffer has that many units and lives until after the call.
        let written = unsafe { GetSystemWindowsDirectoryW(units.as_mut_ptr(), length) };
        if written == 0 || written > length {
            return Err(HostError::win32(STEP, "%SystemRoot%", last_error()));
        }
        let text = narrow(&units);
        let drive = WinPath::normalise(&text).map(|path| path.drive());
        drive.ok_or_else(|| HostError::malformed(STEP, "%SystemRoot%", text))
    }

    fn elapsed(&self) -> Duration {
        // SAFETY: the function takes no argument and returns a number.
        Duration::from_millis(unsafe { GetTickCount64() })
    }

    fn pause(&self, time: Duration) {
        let milliseconds = u32::try_from(time.as_millis()).unwrap_or(u32::MAX - 1);
        // SAFETY: the function takes a number, and this thread may block.
        unsafe { Sleep(milliseconds) };
    }
}

impl SpaceHost for Win32 {
    fn space(&self, path: &WinPath) -> Result<Space, HostError> {
        let name = wide(&format!(r"{path}\"));
        let mut space = Space { available: 0, total: 0, free: 0 };
        // SAFETY: the text ends in 0 and lives until after the call; the call writes the three numbers only while it
        // runs.
        let done = unsafe {
            let (available, total) = (&raw mut space.available, &raw mut space.total);
            GetDiskFreeSpaceExW(name.as_ptr(), available, total, &raw mut space.free)
        };
        if done == 0 { Err(HostError::win32("GetDiskFreeSpaceExW", path, last_error())) } else { Ok(space) }
    }
}
