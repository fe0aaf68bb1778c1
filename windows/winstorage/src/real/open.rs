//! Opens handles by a path that the administrator has configured, or by a name in an open directory.

use std::fs::File;
use std::os::windows::fs::OpenOptionsExt;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};

use windows_sys::Wdk::Foundation::OBJECT_ATTRIBUTES;
use windows_sys::Wdk::Storage::FileSystem::{
    FILE_CREATE, FILE_DIRECTORY_FILE, FILE_NON_DIRECTORY_FILE, FILE_OPEN, FILE_OPEN_FOR_BACKUP_INTENT,
    FILE_OPEN_REPARSE_POINT, FILE_SYNCHRONOUS_IO_NONALERT, NtCreateFile,
};
use windows_sys::Win32::Foundation::{
    INVALID_HANDLE_VALUE, OBJ_CASE_INSENSITIVE, RtlNtStatusToDosError, UNICODE_STRING,
};
use windows_sys::Win32::Storage::FileSystem::{
    DELETE, FILE_ATTRIBUTE_NORMAL, FILE_FLAG_BACKUP_SEMANTICS, FILE_FLAG_OPEN_REPARSE_POINT, FILE_LIST_DIRECTORY,
    FILE_READ_ATTRIBUTES, FILE_SHARE_DELETE, FILE_SHARE_READ, FILE_SHARE_WRITE, FILE_TRAVERSE, FILE_WRITE_ATTRIBUTES,
    ReOpenFile, SYNCHRONIZE,
};
use windows_sys::Win32::System::IO::IO_STATUS_BLOCK;

use super::wide::{code_of, last_error};

/// The rights that reading an entry and listing a directory require.
const LOOK: u32 = FILE_READ_ATTRIBUTES | FILE_LIST_DIRECTORY | FILE_TRAVERSE | SYNCHRONIZE;
const SHARE_ALL: u32 = FILE_SHARE_READ | FILE_SHARE_WRITE | FILE_SHARE_DELETE;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Want {
    Look,
    /// Read the attributes of a file that another process has locked.
    Glance,
    Follow,
    Remove,
    MakeDirectory,
    /// Create a directory or file that will become a link.
    MakeLink {
        is_directory: bool,
    },
}

/// Opens a full Win32 path. Follows links.
pub(super) fn by_path(path: &str) -> Result<File, u32> {
    let mut options = File::options();
    options.access_mode(LOOK).share_mode(SHARE_ALL).custom_flags(FILE_FLAG_BACKUP_SEMANTICS);
    options.open(path).map_err(|error| code_of(&error))
}

/// Opens a device for queries only.
pub(super) fn device(path: &str) -> Result<File, u32> {
    let mut options = File::options();
    options.access_mode(0).share_mode(FILE_SHARE_READ | FILE_SHARE_WRITE);
    options.open(path).map_err(|error| code_of(&error))
}

pub(super) fn by_name(directory: &File, name: &str, want: Want) -> Result<File, u32> {
    let (access, disposition, options) = match want {
        Want::Look => (LOOK, FILE_OPEN, FILE_OPEN_REPARSE_POINT),
        Want::Glance => (FILE_READ_ATTRIBUTES | SYNCHRONIZE, FILE_OPEN, FILE_OPEN_REPARSE_POINT),
        Want::Follow => (FILE_READ_ATTRIBUTES | SYNCHRONIZE, FILE_OPEN, 0),
        Want::Remove => (DELETE | FILE_READ_ATTRIBUTES | SYNCHRONIZE, FILE_OPEN, FILE_OPEN_REPARSE_POINT),
        Want::MakeDirectory => (LOOK, FILE_CREATE, FILE_DIRECTORY_FILE | FILE_OPEN_REPARSE_POINT),
        Want::MakeLink { is_directory } => {
            let kind = if is_directory { FILE_DIRECTORY_FILE } else { FILE_NON_DIRECTORY_FILE };
            let access = FILE_WRITE_ATTRIBUTES | DELETE | SYNCHRONIZE;
            (access, FILE_CREATE, kind | FILE_OPEN_REPARSE_POINT)
        }
    };
    let mut units: Vec<u16> = name.encode_utf16().collect();
    // Reject a separator: the kernel would resolve the name as a path.
    if units.is_empty() || name.contains(['\\', '/', ':']) {
        return Err(crate::host::code::INVALID_NAME);
    }
    let bytes = u16::try_from(units.len() * 2).map_err(|_| crate::host::code::INVALID_NAME)?;
    let object_name = UNICODE_STRING { Length: bytes, MaximumLength: bytes, Buffer: units.as_mut_ptr() };
    let attributes = OBJECT_ATTRIBUTES {
        Length: u32::try_from(size_of::<OBJECT_ATTRIBUTES>()).unwrap_or_default(),
        RootDirectory: directory.as_raw_handle(),
        ObjectName: &raw const object_name,
        Attributes: OBJ_CASE_INSENSITIVE,
        SecurityDescriptor: null(),
        SecurityQualityOfService: null(),
    };
    let options = options | FILE_SYNCHRONOUS_IO_NONALERT | FILE_OPEN_FOR_BACKUP_INTENT;
    let mut handle = null_mut();
    let mut status_block = IO_STATUS_BLOCK::default();
    // SAFETY: `attributes` points to `object_name`, which points to `units`. All of them, and the directory's handle,
    // live until after the call, which is synchronous. The call writes the two results only while it runs.
    let status = unsafe {
        NtCreateFile(
            &raw mut handle,
            access,
            &raw const attributes,
            &raw mut status_block,
            null(),
            FILE_ATTRIBUTE_NORMAL,
            SHARE_ALL,
            disposition,
            options,
            null(),
            0,
        )
    };
    if status < 0 {
        // SAFETY: the function computes a number from a number.
        return Err(unsafe { RtlNtStatusToDosError(status) });
    }
    // SAFETY: the call has succeeded, so the handle is open, and no other code owns it.
    Ok(File::from(unsafe { OwnedHandle::from_raw_handle(handle) }))
}

/// Opens the same directory a second time. While this handle is open, no process can rename or remove the directory or
/// any of its parents.
pub(super) fn pinned(entry: &File) -> Result<File, u32> {
    let flags = FILE_FLAG_BACKUP_SEMANTICS | FILE_FLAG_OPEN_REPARSE_POINT;
    // SAFETY: the handle is open as long as `entry` lives; the call returns a new one.
    let handle = unsafe { ReOpenFile(entry.as_raw_handle(), LOOK, FILE_SHARE_READ | FILE_SHARE_WRITE, flags) };
    if handle == INVALID_HANDLE_VALUE {
        return Err(last_error());
    }
    // SAFETY: the call has succeeded, so the handle is open, and no other code owns it.
    Ok(File::from(unsafe { OwnedHandle::from_raw_handle(handle) }))
}
