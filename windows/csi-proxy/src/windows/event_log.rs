//! Audit records in Windows' event log, with the source `csiproxy`.

use std::io;
use std::ptr::{null, null_mut};

use windows_sys::Win32::Foundation::HANDLE;
use windows_sys::Win32::System::EventLog::{
    DeregisterEventSource, EVENTLOG_ERROR_TYPE, EVENTLOG_INFORMATION_TYPE, REPORT_EVENT_TYPE, RegisterEventSourceW,
    ReportEventW,
};

use super::wide;
use crate::audit::AuditSink;

const SOURCE: &str = "csiproxy";
const CALL: u32 = 1;
/// The id of the event that contains the reason why the service has ended.
const FAILURE: u32 = 2;
const LONGEST: usize = 31_000;

#[derive(Debug)]
pub(crate) struct EventLog(HANDLE);

// SAFETY: the functions of the event log accept the handle from any thread, even concurrently.
unsafe impl Send for EventLog {}
// SAFETY: as for `Send`.
unsafe impl Sync for EventLog {}

impl EventLog {
    pub(crate) fn open() -> io::Result<Self> {
        let source = wide(SOURCE);
        // SAFETY: the text ends in zero and outlives the call; null means this machine.
        let handle = unsafe { RegisterEventSourceW(null(), source.as_ptr()) };
        if handle.is_null() { Err(io::Error::last_os_error()) } else { Ok(Self(handle)) }
    }
}

impl AuditSink for EventLog {
    fn record(&self, line: &str) {
        self.write(EVENTLOG_INFORMATION_TYPE, CALL, line);
    }
}

impl EventLog {
    pub(crate) fn error(&self, text: &str) {
        self.write(EVENTLOG_ERROR_TYPE, FAILURE, text);
    }

    fn write(&self, kind: REPORT_EVENT_TYPE, number: u32, line: &str) {
        let mut text = wide(line);
        if text.len() > LONGEST {
            text.truncate(LONGEST - 1);
            text.push(0);
        }
        let texts = [text.as_ptr()];
        // SAFETY: the handle is open. The call gets one text, as the count states. The text is zero-terminated and
        // outlives the call. The call gets neither data nor a user.
        unsafe {
            ReportEventW(self.0, kind, 0, number, null_mut(), 1, 0, texts.as_ptr(), null());
        }
    }
}

impl Drop for EventLog {
    fn drop(&mut self) {
        // SAFETY: `open` created the handle, and no other code owns it.
        unsafe { DeregisterEventSource(self.0) };
    }
}
