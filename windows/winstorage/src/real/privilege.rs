//! The privilege to create symbolic links. A service has it, but it is disabled by default.

use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle};
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::LUID;
use windows_sys::Win32::Security::{
    AdjustTokenPrivileges, LUID_AND_ATTRIBUTES, LookupPrivilegeValueW, SE_CREATE_SYMBOLIC_LINK_NAME,
    SE_PRIVILEGE_ENABLED, TOKEN_ADJUST_PRIVILEGES, TOKEN_PRIVILEGES, TOKEN_QUERY,
};
use windows_sys::Win32::System::Threading::{GetCurrentProcess, OpenProcessToken};

use super::wide::last_error;
use crate::host::HostError;

const STEP: &str = "AdjustTokenPrivileges";

pub(super) fn allow_symbolic_links() -> Result<(), HostError> {
    let failed = || HostError::win32(STEP, "SeCreateSymbolicLinkPrivilege", last_error());
    let mut luid = LUID::default();
    // SAFETY: the name is a constant that ends in 0. The call writes `luid` only while it runs.
    if unsafe { LookupPrivilegeValueW(null(), SE_CREATE_SYMBOLIC_LINK_NAME, &raw mut luid) } == 0 {
        return Err(failed());
    }
    let mut token = null_mut();
    // SAFETY: the pseudo handle of this process needs no closing. The call writes `token` only while it runs.
    if unsafe { OpenProcessToken(GetCurrentProcess(), TOKEN_ADJUST_PRIVILEGES | TOKEN_QUERY, &raw mut token) } == 0 {
        return Err(failed());
    }
    // SAFETY: the call above has created this handle, and no other code owns it.
    let token = unsafe { OwnedHandle::from_raw_handle(token) };
    let wanted = TOKEN_PRIVILEGES {
        PrivilegeCount: 1,
        Privileges: [LUID_AND_ATTRIBUTES { Luid: luid, Attributes: SE_PRIVILEGE_ENABLED }],
    };
    // SAFETY: the token is open, `wanted` holds as many privileges as its count, and no output is requested.
    let done = unsafe { AdjustTokenPrivileges(token.as_raw_handle(), 0, &raw const wanted, 0, null_mut(), null_mut()) };
    // The call succeeds even if the token lacks the privilege, and then sets the last error.
    match (done, last_error()) {
        (0, code) => Err(HostError::win32(STEP, "SeCreateSymbolicLinkPrivilege", code)),
        (_, 0) => Ok(()),
        (_, code) => Err(HostError::win32(STEP, "SeCreateSymbolicLinkPrivilege", code)),
    }
}
