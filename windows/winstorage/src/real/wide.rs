//! Converts texts and error codes of Win32 calls.

pub(super) fn wide(text: &str) -> Vec<u16> {
    text.encode_utf16().chain([0]).collect()
}

pub(super) fn narrow(units: &[u16]) -> String {
    let end = units.iter().position(|unit| *unit == 0).unwrap_or(units.len());
    String::from_utf16_lossy(&units[..end])
}

/// Returns the last error of the calling thread. Call it immediately after the failed call.
pub(super) fn last_error() -> u32 {
    code_of(&std::io::Error::last_os_error())
}

pub(super) fn code_of(error: &std::io::Error) -> u32 {
    let code = error.raw_os_error().unwrap_or_default();
    u32::try_from(code).unwrap_or_default()
}
