//! Identifies the process that has opened a pipe. It does so when the client connects, because Windows may reuse the
//! process id later.

use std::ffi::c_void;
use std::os::windows::io::{AsRawHandle, FromRawHandle, OwnedHandle, RawHandle};
use std::ptr::null_mut;

use windows_sys::Win32::Foundation::{HANDLE, LocalFree};
use windows_sys::Win32::Security::Authorization::ConvertSidToStringSidW;
use windows_sys::Win32::Security::{GetTokenInformation, TOKEN_QUERY, TOKEN_USER, TokenUser};
use windows_sys::Win32::System::Pipes::GetNamedPipeClientProcessId;
use windows_sys::Win32::System::RemoteDesktop::ProcessIdToSessionId;
use windows_sys::Win32::System::Threading::{
    OpenProcess, OpenProcessToken, PROCESS_NAME_WIN32, PROCESS_QUERY_LIMITED_INFORMATION, QueryFullProcessImageNameW,
};

use crate::peer::Peer;

/// Returns the known properties of the client of a connected pipe.
///
/// Does not impersonate the client: with the impersonation level of Go clients, Windows does not reveal their account.
pub(super) fn client_of(pipe: RawHandle) -> Peer {
    let Some(pid) = process_id(pipe) else { return Peer::default() };
    let process = open(pid);
    Peer {
        pid: Some(pid),
        session: session(pid),
        image: process.as_ref().and_then(image),
        sid: process.as_ref().and_then(user),
    }
}

pub(crate) fn own_user() -> Option<String> {
    open(std::process::id()).as_ref().and_then(user)
}

fn process_id(pipe: RawHandle) -> Option<u32> {
    let mut pid = 0;
    // SAFETY: the handle is a connected pipe that its owner keeps open during the call; the output variable is ours.
    let done = unsafe { GetNamedPipeClientProcessId(pipe, &raw mut pid) };
    (done != 0).then_some(pid)
}

fn session(pid: u32) -> Option<u32> {
    let mut session = 0;
    // SAFETY: the output variable is ours.
    let done = unsafe { ProcessIdToSessionId(pid, &raw mut session) };
    (done != 0).then_some(session)
}

fn open(pid: u32) -> Option<OwnedHandle> {
    // SAFETY: the call takes no pointers, and only this code owns a returned handle.
    let handle = unsafe { OpenProcess(PROCESS_QUERY_LIMITED_INFORMATION, 0, pid) };
    owned(handle)
}

fn owned(handle: HANDLE) -> Option<OwnedHandle> {
    // SAFETY: Windows has just returned the handle, and no other code closes it.
    (!handle.is_null()).then(|| unsafe { OwnedHandle::from_raw_handle(handle) })
}

fn image(process: &OwnedHandle) -> Option<String> {
    let mut text = [0_u16; 1024];
    let mut length = u32::try_from(text.len()).expect("a kilobyte");
    // SAFETY: the buffer has `length` units.
    let done = unsafe {
        QueryFullProcessImageNameW(process.as_raw_handle(), PROCESS_NAME_WIN32, text.as_mut_ptr(), &raw mut length)
    };
    let length = usize::try_from(length).ok().filter(|_| done != 0)?;
    Some(String::from_utf16_lossy(text.get(..length)?))
}

fn user(process: &OwnedHandle) -> Option<String> {
    let mut token = null_mut();
    // SAFETY: the process is open and the output variable is ours.
    let done = unsafe { OpenProcessToken(process.as_raw_handle(), TOKEN_QUERY, &raw mut token) };
    let token = owned(token).filter(|_| done != 0)?;
    // Use words of eight bytes, so that the structure at the start is aligned. The longest SID has 68 bytes.
    let mut information = [0_u64; 32];
    let mut length = 0;
    // SAFETY: the buffer is ours and has the given length.
    let done = unsafe {
        GetTokenInformation(
            token.as_raw_handle(),
            TokenUser,
            information.as_mut_ptr().cast::<c_void>(),
            u32::try_from(size_of_val(&information)).expect("a few bytes"),
            &raw mut length,
        )
    };
    if done == 0 {
        return None;
    }
    // SAFETY: Windows has written a TOKEN_USER at the start of the buffer, which is aligned for it. Its SID is in the
    // buffer.
    let sid = unsafe { (*information.as_ptr().cast::<TOKEN_USER>()).User.Sid };
    let mut text = null_mut();
    // SAFETY: the SID is valid while the buffer lives; the output variable is ours.
    let done = unsafe { ConvertSidToStringSidW(sid, &raw mut text) };
    if done == 0 || text.is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: the text ends in zero, so each unit up to it may be read.
    while unsafe { *text.add(length) } != 0 {
        length += 1;
    }
    // SAFETY: `length` units were just read, and no other code changes them.
    let sid = String::from_utf16_lossy(unsafe { std::slice::from_raw_parts(text, length) });
    // SAFETY: Windows allocated `text` for release with LocalFree, and no code uses `text` afterwards.
    unsafe { LocalFree(text.cast()) };
    Some(sid)
}
