//! What went wrong with a call, and the one place that makes gRPC's statuses of it.

use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::{Code, Status};
use winstorage::StorageError;
use winstorage::host::Answer;
use winstorage::service::DiskBusy;

/// Why a call was not done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Failure {
    /// An argument of the wire that cannot be converted, or a version that a call is too new for.
    Refused(String),
    /// A message that a call cannot do without. The Go proxy dies of it.
    Missing(String),
    /// What the operation said.
    Storage { prefix: String, error: StorageError },
    /// The bytes are no such message.
    Malformed(String),
    /// There is no such method.
    Unimplemented(String),
    /// Too much is under way.
    Busy(String),
    /// Its turn did not come in time.
    Late(String),
    /// A bug of ours.
    Panicked,
}

/// Windows' own number of an error, for clients that would rather not compare text.
const WIN32: &str = "csi-proxy-win32-error";
/// The result of a WMI method, or WMI's own error.
const WMI: &str = "csi-proxy-wmi-code";

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        Self::Storage { prefix: String::new(), error }
    }
}

impl Failure {
    /// What holds the disk that the operation was to change, where it did nothing for that reason.
    pub(crate) fn busy(&self) -> Option<DiskBusy> {
        match self {
            Self::Storage { error: StorageError::DiskBusy(busy), .. } => Some(*busy),
            _ => None,
        }
    }

    /// The same failure of the newer call that an old one stands for.
    pub(crate) fn forwarded_to(self, name: &str) -> Self {
        let forward = format!("Forward to {name} failed, err=");
        match self {
            Self::Refused(text) => Self::Refused(forward + &text),
            Self::Storage { prefix, error } => Self::Storage { prefix: forward + &prefix, error },
            other => other,
        }
    }

    /// Clients compare text: host errors and refused arguments have the code Unknown, as the Go proxy's do.
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
            Self::Panicked => "csi-proxy: the call ended in a panic, which its log has".to_owned(),
        }
    }

    /// What Windows answered, for records.
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

/// The name of a success, and of what is no call at all.
pub(crate) const OK: &str = "OK";
pub(crate) const MALFORMED: &str = "Internal";

/// The name of a status's code as metrics and records have it.
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

    /// A host error has the code Unknown with its text, and Windows' own number in the trailing metadata.
    #[test]
    fn a_host_error_is_unknown_with_its_text_and_windows_number_besides() {
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

    /// An error forwarded by an old call keeps its text behind a prefix that names the new one.
    #[test]
    fn a_forwarded_error_keeps_its_text_behind_a_prefix() {
        let error = StorageError::NotMounted { path: "C:\\x".to_owned() };
        let text = Failure::from(error.clone()).forwarded_to("GetVolumeIDFromTargetPath").text();
        assert_eq!(text, format!("Forward to GetVolumeIDFromTargetPath failed, err={}", error.text()));
        assert!(text.contains("(Get-Item -Path $Env:mountpath).Target, output: , error: <nil>"), "{text}");
    }
}
