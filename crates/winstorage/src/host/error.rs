//! What Windows said instead of doing a step.

use std::fmt;

/// A step that failed, the object it was for, and the answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{step} of {object} failed: {answer}")]
pub struct HostError {
    /// `MSFT_Disk.Initialize`, `SetVolumeMountPointW`, …
    pub step: &'static str,
    /// `disk 3`, a path, a volume.
    pub object: String,
    /// Windows' own words.
    pub answer: Answer,
}

/// The forms in which Windows refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// `GetLastError` of a Win32 call.
    Win32(u32),
    /// The `ReturnValue` of a WMI method.
    Method(u32),
    /// An `HRESULT` of COM or of WMI itself.
    Com(u32),
    /// A reply that cannot be understood.
    Malformed(String),
}

impl HostError {
    /// A step that a Win32 call refused.
    #[must_use]
    pub fn win32(step: &'static str, object: impl fmt::Display, code: u32) -> Self {
        Self { step, object: object.to_string(), answer: Answer::Win32(code) }
    }

    /// A method of a WMI class that returned `code`.
    #[must_use]
    pub fn method(step: &'static str, object: impl fmt::Display, code: u32) -> Self {
        Self { step, object: object.to_string(), answer: Answer::Method(code) }
    }

    /// A reply that says something else than it should.
    #[must_use]
    pub fn malformed(step: &'static str, object: impl fmt::Display, what: impl Into<String>) -> Self {
        Self { step, object: object.to_string(), answer: Answer::Malformed(what.into()) }
    }

    /// True for the codes that say that a file, path or volume is not there.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self.answer, Answer::Win32(code::FILE_NOT_FOUND | code::PATH_NOT_FOUND))
    }

    /// True where Windows' code is `code`.
    #[must_use]
    pub fn is_win32(&self, code: u32) -> bool {
        self.answer == Answer::Win32(code)
    }

    /// True where the WMI method returned `code`.
    #[must_use]
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
            Self::Malformed(what) => write!(f, "unexpected answer: {what}"),
        }
    }
}

/// Codes of Win32 that decide something here.
pub mod code {
    /// `ERROR_FILE_NOT_FOUND`
    pub const FILE_NOT_FOUND: u32 = 2;
    /// `ERROR_PATH_NOT_FOUND`
    pub const PATH_NOT_FOUND: u32 = 3;
    /// `ERROR_ACCESS_DENIED`
    pub const ACCESS_DENIED: u32 = 5;
    /// `ERROR_FILE_EXISTS`
    pub const FILE_EXISTS: u32 = 80;
    /// `ERROR_INVALID_NAME`
    pub const INVALID_NAME: u32 = 123;
    /// `ERROR_DIR_NOT_EMPTY`
    pub const DIR_NOT_EMPTY: u32 = 145;
    /// `ERROR_ALREADY_EXISTS`
    pub const ALREADY_EXISTS: u32 = 183;
    /// `ERROR_DIRECTORY`
    pub const DIRECTORY: u32 = 267;
    /// `ERROR_NOT_A_REPARSE_POINT`
    pub const NOT_A_REPARSE_POINT: u32 = 4390;

    /// Texts of the codes that people see most; Windows' own are in the machine's language.
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

/// Results of WMI methods that decide something here.
pub mod result {
    /// What `MSFT_Disk.CreatePartition` returns although the partition was made: its access path is in use.
    pub const ACCESS_PATH_IN_USE: u32 = 42002;
    /// What storage methods return while another service, the defragmenter for one, holds the volume.
    pub const STORAGE_BUSY: u32 = 4;
    /// What `Win32_Service.StopService` returns while services that need this one run.
    pub const DEPENDENTS_RUNNING: u32 = 3;
}
