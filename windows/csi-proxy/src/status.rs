//! Why calls fail. Only this module converts failures to gRPC statuses.

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use winstorage::StorageError;
use winstorage::host::Answer;
use winstorage::service::DiskBusy;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An argument is invalid, or this version does not have the call.
    Refused(String),
    /// A required message is missing. The Go proxy crashes in this case.
    Missing(String),
    Storage {
        prefix: String,
        error: StorageError,
    },
    Malformed(String),
    Unimplemented(String),
    Busy(String),
    Late(String),
    /// The operation panicked, which is a bug of this program.
    Panicked,
}

/// The metadata key for Windows' error number, for clients that do not compare error texts.
const WIN32: &str = "csi-proxy-win32-error";
/// The metadata key for the return code of a WMI method, or WMI's own error.
const WMI: &str = "csi-proxy-wmi-code";

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage { prefix: String::new(), error }
    }
}

impl Failure {
    /// Returns details of the disk's current operation, if this operation failed because the disk was busy.
    pub(crate) fn busy(&self) -> Option<DiskBusy> {
        match self {
            Self::Storage { error: StorageError::DiskBusy(busy), .. } => Some(*busy),
            _ => None,
        }
    }

    /// Puts the name of the newer call, to which the proxy forwarded the old one, in front of this failure.
    pub(crate) fn forwarded_to(self, name: &str) -> Self {
        let forward = format!("Forward to {name} failed, err=");
        match self {
            Self::Refused(text) => Self::Refused(forward + &text),
            Self::Storage { prefix, error } => Self::Storage { prefix: forward + &prefix, error },
            other => other,
        }
    }

    /// Returns the gRPC status. Clients compare error texts, so errors of the host and of arguments have the code
    /// Unknown, as in the Go proxy.
    pub(crate) fn status(&self) -> Status {
        let status = |code| Status::with_metadata(code, self.text(), self.metadata());
        match self {
            Self::Refused(_) | Self::Storage { .. } => status(Code::Unknown),
            Self::Missing(_) => status(Code::InvalidArgument),
            Self::Malformed(_) | Self::Panicked => status(Code::Internal),
            Self::Unimplemented(_) => status(Code::Unimplemented),
            Self::Busy(_) => status(Code::ResourceExhausted),
            Self::Late(_) => status(Code::DeadlineExceeded),
        }
    }

    pub(crate) fn text(&self) -> String {
        match self {
            Self::Refused(text)
            | Self::Missing(text)
            | Self::Malformed(text)
            | Self::Unimplemented(text)
            | Self::Busy(text)
            | Self::Late(text) => text.clone(),
            Self::Storage { prefix, error } => format!("{prefix}{}", error.text()),
            Self::Panicked => "csi-proxy: the call panicked; see the log of csi-proxy".to_owned(),
        }
    }

    pub(crate) fn native(&self) -> Option<String> {
        match self {
            Self::Storage { error, .. } => error.answer().map(ToString::to_string),
            _ => None,
        }
    }

    fn metadata(&self) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        if let Self::Storage { error, .. } = self {
            match error.answer() {
                Some(Answer::Win32(number)) => metadata.insert(WIN32, MetadataValue::from(*number)),
                Some(Answer::Method(number) | Answer::Com(number)) => {
                    metadata.insert(WMI, MetadataValue::from(*number))
                }
                Some(Answer::Malformed(_)) | None => None,
            };
        }
        metadata
    }
}

/// The code for a success, and for requests that are not calls.
pub(crate) const OK: &str = "OK";
pub(crate) const MALFORMED: &str = "Internal";

pub(crate) fn name_of(status: &Status) -> &'static str {
    match status.code() {
        Code::Ok => OK,
        Code::Cancelled => "Canceled",
        Code::Unknown => "Unknown",
        Code::InvalidArgument => "InvalidArgument",
        Code::DeadlineExceeded => "DeadlineExceeded",
        Code::NotFound => "NotFound",
        Code::AlreadyExists => "AlreadyExists",
        Code::PermissionDenied => "PermissionDenied",
        Code::ResourceExhausted => "ResourceExhausted",
        Code::FailedPrecondition => "FailedPrecondition",
        Code::Aborted => "Aborted",
        Code::OutOfRange => "OutOfRange",
        Code::Unimplemented => "Unimplemented",
        Code::Internal => MALFORMED,
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests {
    use winstorage::host::HostError;

    use super::*;

    #[test]
    fn host_error_is_status_unknown_with_text_and_windows_code() {
        let win32 = Failure::from(StorageError::from(HostError::win32("SetVolumeMountPointW", "C:\\x", 145)));
        let status = win32.status();
        assert_eq!(status.code(), Code::Unknown);
        assert!(status.message().contains("SetVolumeMountPointW"), "{}", status.message());
        assert_eq!(status.metadata().get(WIN32).unwrap(), "145");
        assert!(status.metadata().get(WMI).is_none());
        let wmi = Failure::from(StorageError::from(HostError::method("MSFT_Volume.Format", "v", 42_002))).status();
        assert_eq!(wmi.metadata().get(WMI).unwrap(), "42002");
        assert!(Failure::Refused("no".to_owned()).status().metadata().is_empty());
    }
}
