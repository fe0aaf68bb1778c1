//! The error of a step that failed in Windows.

use std::fmt;

/// The step that failed, its object, and Windows' error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step} of {object} failed: {answer}")]
pub struct HostError {
    pub step: &'static str,
    pub object: String,
    pub answer: Answer,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// The `GetLastError` code of a Win32 call.
    Win32(u32),
    /// The `ReturnValue` of a WMI method.
    Method(u32),
    /// An `HRESULT` of COM or of WMI itself.
    Com(u32),
    /// A reply that cannot be parsed.
    Malformed(String),
}

impl HostError {
    pub fn win32(step: &'static str, object: impl fmt::Display, code: u32) -> Self {
        Self { step, object: object.to_string(), answer: Answer::Win32(code) }
    }

    pub fn method(step: &'static str, object: impl fmt::Display, code: u32) -> Self {
        Self { step, object: object.to_string(), answer: Answer::Method(code) }
    }

    pub fn malformed(step: &'static str, object: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { step, object: object.to_string(), answer: Answer::Malformed(what.into()) }
    }

    pub fn is_missing(&self) -> bool {
        matches!(self.answer, Answer::Win32(code::FILE_NOT_FOUND | code::PATH_NOT_FOUND))
    }

    pub fn is_win32(&self, code: u32) -> bool {
        self.answer == Answer::Win32(code)
    }

    pub fn is_method(&self, code: u32) -> bool {
        self.answer == Answer::Method(code)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Win32(number) => match code::text(*number) {
                Some(text) => write!(f, "{text} (error {number})"),
                None => write!(f, "error {number}"),
            },
            Self::Method(number) => write!(f, "result {number}"),
            Self::Com(number) => write!(f, "HRESULT {number:#010x}"),
            Self::Malformed(what) => write!(f, "unexpected reply: {what}"),
        }
    }
}

pub mod code {
    pub const FILE_NOT_FOUND: u32 = 2;
    pub const PATH_NOT_FOUND: u32 = 3;
    pub const ACCESS_DENIED: u32 = 5;
    pub const FILE_EXISTS: u32 = 80;
    pub const INVALID_NAME: u32 = 123;
    pub const DIR_NOT_EMPTY: u32 = 145;
    pub const ALREADY_EXISTS: u32 = 183;
    pub const DIRECTORY: u32 = 267;
    pub const NOT_A_REPARSE_POINT: u32 = 4390;

    /// Returns a description of a frequent error code. Windows' own descriptions are in the language of the machine.
    pub(super) fn text(code: u32) -> Option<&'static str> {
        Some(match code {
            FILE_NOT_FOUND => "The system cannot find the file specified.",
            PATH_NOT_FOUND => "The system cannot find the path specified.",
            ACCESS_DENIED => "Access is denied.",
            FILE_EXISTS => "The file exists.",
            INVALID_NAME => "The filename, directory name, or volume label syntax is incorrect.",
            DIR_NOT_EMPTY => "The directory is not empty.",
            ALREADY_EXISTS => "Cannot create a file when that file already exists.",
            DIRECTORY => "The directory name is invalid.",
            NOT_A_REPARSE_POINT => "The file or directory is not a reparse point.",
            _ => return None,
        })
    }
}

pub mod result {
    /// `MSFT_Disk.CreatePartition` created the partition, but its access path is in use.
    pub const ACCESS_PATH_IN_USE: u32 = 42002;
    /// Another service holds the volume, for example the defragmenter.
    pub const STORAGE_BUSY: u32 = 4;
    /// `Win32_Service.StopService` failed because dependent services are running.
    pub const DEPENDENTS_RUNNING: u32 = 3;
}
