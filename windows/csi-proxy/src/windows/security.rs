//! Permissions of a pipe.

use std::ffi::c_void;
use std::io;
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::LocalFree;
use windows_sys::Win32::Security::Authorization::{
    ConvertStringSecurityDescriptorToSecurityDescriptorW, SDDL_REVISION_1,
};
use windows_sys::Win32::Security::{PSECURITY_DESCRIPTOR, SECURITY_ATTRIBUTES};

use super::wide;

#[derive(Debug)]
pub(crate) struct Security(PSECURITY_DESCRIPTOR);

// SAFETY: the descriptor is written once, by `parse`, and only read afterwards; any thread may read and free it.
unsafe impl Send for Security {}
// SAFETY: nothing changes the descriptor after `parse`.
unsafe impl Sync for Security {}

impl Security {
    /// Parses SDDL. Errors: Windows' error, whose number shows only that the text is malformed.
    pub(crate) fn parse(text: &str) -> io::Result<Self> {
        let mut descriptor: PSECURITY_DESCRIPTOR = null_mut();
        let text = wide(text);
        // SAFETY: the text is zero-terminated and outlives the call; the output variable is ours. The size is not
        // requested.
        let done = unsafe {
            ConvertStringSecurityDescriptorToSecurityDescriptorW(
                text.as_ptr(),
                SDDL_REVISION_1,
                &raw mut descriptor,
                null_mut(),
            )
        };
        if done == 0 { Err(io::Error::last_os_error()) } else { Ok(Self(descriptor)) }
    }

    /// Calls `with` with security attributes. They are valid during the call, and child processes do not inherit the
    /// handle.
    pub(super) fn attributes<R>(&self, with: impl FnOnce(*mut c_void) -> R) -> R {
        let size = u32::try_from(size_of::<SECURITY_ATTRIBUTES>()).expect("a few bytes");
        let mut attributes = SECURITY_ATTRIBUTES { nLength: size, lpSecurityDescriptor: self.0, bInheritHandle: 0 };
        with((&raw mut attributes).cast())
    }
}

impl Drop for Security {
    fn drop(&mut self) {
        // SAFETY: Windows allocated the descriptor in `parse`, for LocalFree, and only this value owns it.
        unsafe { LocalFree(self.0) };
    }
}
