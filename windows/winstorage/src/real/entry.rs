//! Open entries of the file system.

use std::fs::File;
use std::os::windows::fs::MetadataExt;
use std::os::windows::io::AsRawHandle;
use std::sync::Arc;

use windows_sys::Win32::Foundation::{
    ERROR_INVALID_FUNCTION, ERROR_INVALID_PARAMETER, ERROR_NO_MORE_FILES, ERROR_NOT_SUPPORTED, ERROR_SHARING_VIOLATION,
};
use windows_sys::Win32::Storage::FileSystem::{
    DeleteVolumeMountPointW, FILE_ATTRIBUTE_DIRECTORY, FILE_ATTRIBUTE_REPARSE_POINT, FILE_DISPOSITION_FLAG_DELETE,
    FILE_DISPOSITION_FLAG_IGNORE_READONLY_ATTRIBUTE, FILE_DISPOSITION_FLAG_POSIX_SEMANTICS, FILE_DISPOSITION_INFO,
    FILE_DISPOSITION_INFO_EX, FILE_INFO_BY_HANDLE_CLASS, FileDispositionInfo, FileDispositionInfoEx,
    FileFullDirectoryInfo, FileFullDirectoryRestartInfo, GetFileInformationByHandleEx, GetFinalPathNameByHandleW,
    SetFileInformationByHandle, SetVolumeMountPointW,
};

use super::open::{self, Want};
use super::wide::{code_of, last_error, narrow, wide};
use super::{device, entry};
use crate::host::{EntryKind, FsEntry, HostError, code};
use crate::types::VolumeGuid;
use crate::{directory, reparse};

const LISTING: usize = 64 * 1024;
const LONGEST_PATH: usize = 32 * 1024;

/// An open entry. It was opened by its name in a directory, or by its path.
pub(super) struct OpenEntry {
    file: Arc<File>,
    /// The directory in which the entry was opened, and the name that it had then. That name may now belong to another
    /// entry.
    parent: Option<(Arc<File>, String)>,
    shown: String,
}

impl OpenEntry {
    pub(super) fn at(path: &str) -> Result<Self, u32> {
        Ok(Self { file: Arc::new(open::by_path(path)?), parent: None, shown: path.to_owned() })
    }

    fn opened(&self, name: &str, file: File) -> Box<dyn FsEntry> {
        let parent = Some((Arc::clone(&self.file), name.to_owned()));
        Box::new(entry::OpenEntry { file: Arc::new(file), parent, shown: self.shown_child(name) })
    }

    fn shown_child(&self, name: &str) -> String {
        format!(r"{}\{name}", self.shown)
    }

    fn failed(&self, step: &'static str) -> impl Fn(u32) -> HostError {
        move |code| HostError::win32(step, &self.shown, code)
    }

    /// Holds the directory, so that no process can move it. Returns its path, for calls that do not accept handles.
    fn pinned(&self) -> Result<(File, Vec<u16>), u32> {
        let pin = open::pinned(&self.file)?;
        let mut path = final_path(&pin)?;
        if let Some(plain) = path.strip_prefix(r"\\?\").filter(|rest| rest.get(1..3) == Some(r":\")) {
            path = plain.to_owned();
        }
        path.push('\\');
        Ok((pin, wide(&path)))
    }
}

impl FsEntry for OpenEntry {
    fn kind(&self) -> Result<EntryKind, HostError> {
        const STEP: &str = "GetFileInformationByHandle";
        let metadata = self.file.metadata().map_err(|error| self.failed(STEP)(code_of(&error)))?;
        let attributes = metadata.file_attributes();
        let is_directory = attributes & FILE_ATTRIBUTE_DIRECTORY != 0;
        if attributes & FILE_ATTRIBUTE_REPARSE_POINT == 0 {
            return Ok(if is_directory { EntryKind::Directory } else { EntryKind::File });
        }
        let data = device::reparse_data(&self.file).map_err(self.failed("FSCTL_GET_REPARSE_POINT"))?;
        reparse::parse(&data, is_directory)
            .ok_or_else(|| HostError::malformed("FSCTL_GET_REPARSE_POINT", &self.shown, "invalid reparse data"))
    }

    fn child(&self, name: &str) -> Result<Option<Box<dyn FsEntry>>, HostError> {
        let opened = match open::by_name(&self.file, name, Want::Look) {
            Err(ERROR_SHARING_VIOLATION) => open::by_name(&self.file, name, Want::Glance),
            opened => opened,
        };
        match opened {
            Ok(file) => Ok(Some(self.opened(name, file))),
            Err(code::FILE_NOT_FOUND | code::PATH_NOT_FOUND) => Ok(None),
            Err(code) => Err(HostError::win32("NtCreateFile", self.shown_child(name), code)),
        }
    }

    fn children(&self) -> Result<Vec<String>, HostError> {
        const STEP: &str = "GetFileInformationByHandleEx";
        let mut names = Vec::new();
        let mut class = FileFullDirectoryRestartInfo;
        // Use words of eight bytes, for the alignment that the kernel requires.
        let mut buffer = vec![0_u64; LISTING / 8];
        loop {
            let length = u32::try_from(LISTING).unwrap_or(u32::MAX);
            // SAFETY: the buffer has that many bytes, is aligned to eight, and lives until after the call.
            let done = unsafe {
                GetFileInformationByHandleEx(self.file.as_raw_handle(), class, buffer.as_mut_ptr().cast(), length)
            };
            if done == 0 {
                return match last_error() {
                    ERROR_NO_MORE_FILES => Ok(names),
                    code => Err(self.failed(STEP)(code)),
                };
            }
            class = FileFullDirectoryInfo;
            let bytes: Vec<u8> = buffer.iter().flat_map(|word| word.to_le_bytes()).collect();
            let some = directory::names(&bytes);
            names.extend(some.ok_or_else(|| HostError::malformed(STEP, &self.shown, "an invalid directory listing"))?);
        }
    }

    fn create_directory(&self, name: &str) -> Result<Box<dyn FsEntry>, HostError> {
        let made = open::by_name(&self.file, name, Want::MakeDirectory);
        let file = made.map_err(|code| HostError::win32("NtCreateFile", self.shown_child(name), code))?;
        Ok(self.opened(name, file))
    }

    fn create_link(&self, name: &str, target: &str, is_directory: bool) -> Result<(), HostError> {
        let failed = |step| move |code| HostError::win32(step, self.shown_child(name), code);
        let data = reparse::symbolic_link(target).ok_or_else(|| failed("NtCreateFile")(code::INVALID_NAME))?;
        let link = open::by_name(&self.file, name, Want::MakeLink { is_directory }).map_err(failed("NtCreateFile"))?;
        device::set_reparse_data(&link, &data).map_err(|code| {
            // If the directory cannot become a link, remove it again.
            let removed = dispose(&link);
            tracing::debug!(removed = removed.is_ok(), "removed a link that could not be created");
            failed("FSCTL_SET_REPARSE_POINT")(code)
        })
    }

    fn remove(self: Box<Self>) -> Result<(), HostError> {
        let failed = self.failed("FileDispositionInfoEx");
        let Some((parent, name)) = &self.parent else { return Err(failed(code::ACCESS_DENIED)) };
        // Open by name in the held directory. This removes the entry that has the name now, without following links.
        let doomed = open::by_name(parent, name, Want::Remove).map_err(&failed)?;
        dispose(&doomed).map_err(&failed)
    }

    fn leads_somewhere(&self) -> Result<bool, HostError> {
        let Some((parent, name)) = &self.parent else { return Ok(true) };
        match open::by_name(parent, name, Want::Follow) {
            Ok(_) => Ok(true),
            Err(code::FILE_NOT_FOUND | code::PATH_NOT_FOUND) => Ok(false),
            Err(code) => Err(self.failed("NtCreateFile")(code)),
        }
    }

    fn mount(&self, volume: &VolumeGuid) -> Result<(), HostError> {
        const STEP: &str = "SetVolumeMountPointW";
        let (pin, path) = self.pinned().map_err(self.failed(STEP))?;
        let name = wide(&volume.to_string());
        // SAFETY: both texts end in 0 and live until after the call.
        let done = unsafe { SetVolumeMountPointW(path.as_ptr(), name.as_ptr()) };
        let result = if done == 0 { Err(self.failed(STEP)(last_error())) } else { Ok(()) };
        drop(pin);
        result
    }

    fn unmount(&self) -> Result<(), HostError> {
        const STEP: &str = "DeleteVolumeMountPointW";
        let (pin, path) = self.pinned().map_err(self.failed(STEP))?;
        // SAFETY: the text ends in 0 and lives until after the call.
        let done = unsafe { DeleteVolumeMountPointW(path.as_ptr()) };
        let result = if done == 0 { Err(self.failed(STEP)(last_error())) } else { Ok(()) };
        drop(pin);
        result
    }
}

/// Removes the entry of a handle that has the right to delete it. If the file system supports it, the name disappears
/// at once, even if other handles are open. Otherwise it disappears when the last handle closes.
fn dispose(doomed: &File) -> Result<(), u32> {
    let flags = FILE_DISPOSITION_FLAG_DELETE
        | FILE_DISPOSITION_FLAG_POSIX_SEMANTICS
        | FILE_DISPOSITION_FLAG_IGNORE_READONLY_ATTRIBUTE;
    match set_information(doomed, FileDispositionInfoEx, &FILE_DISPOSITION_INFO_EX { Flags: flags }) {
        Err(ERROR_INVALID_FUNCTION | ERROR_NOT_SUPPORTED | ERROR_INVALID_PARAMETER) => {
            set_information(doomed, FileDispositionInfo, &FILE_DISPOSITION_INFO { DeleteFile: true })
        }
        disposed => disposed,
    }
}

/// Sets information of an open file. `T` must be the structure that belongs to `class`.
fn set_information<T: Copy>(file: &File, class: FILE_INFO_BY_HANDLE_CLASS, info: &T) -> Result<(), u32> {
    let length = u32::try_from(size_of::<T>()).unwrap_or_default();
    // SAFETY: `info` is `length` bytes long and lives until after the call, which only reads it.
    let done =
        unsafe { SetFileInformationByHandle(file.as_raw_handle(), class, std::ptr::from_ref(info).cast(), length) };
    if done == 0 { Err(last_error()) } else { Ok(()) }
}

fn final_path(file: &File) -> Result<String, u32> {
    let mut units = vec![0_u16; LONGEST_PATH];
    let length = u32::try_from(units.len()).unwrap_or_default();
    // SAFETY: the buffer has that many units and lives until after the call.
    let written = unsafe { GetFinalPathNameByHandleW(file.as_raw_handle(), units.as_mut_ptr(), length, 0) };
    if written == 0 || written >= length { Err(last_error()) } else { Ok(narrow(&units)) }
}
