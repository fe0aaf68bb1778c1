//! Converts errors into gRPC statuses. Only this file uses `tonic::Code`.
//!
//! A sidecar forgets a volume after a *final* code. If the outcome of a mutation is not proven, the meaning is
//! [`Meaning::InProgress`] or [`Meaning::Unavailable`], whose codes are never final.
//!
//! Decision: `docs/dev/decisions/0003-return-final-codes-only-for-proven-outcomes.md`.

use std::error::Error;
use std::fmt::Write;

use tonic::{Code, Status};

use crate::rpc::Rpc;

/// The number of characters kept from the start of a message that is too long.
const MAX_HEAD: usize = 1_500;
/// The number of characters kept from the end of a message that is too long. The end contains the next step.
const MAX_TAIL: usize = 500;

macro_rules! meanings {
    ($($(#[$doc:meta])* $meaning:ident => $code:ident,)+) => {
        /// The meaning of an error for the caller. Each error type of this crate returns one through [`IntoStatus`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Meaning {
            $($(#[$doc])* $meaning,)+
        }

        impl Meaning {
            pub const ALL: &[Self] = &[$(Self::$meaning),+];

            fn code(self) -> Code {
                match self {
                    $(Self::$meaning => Code::$code,)+
                }
            }
        }
    };
}

meanings! {
    /// The request is invalid, and repeating it cannot succeed.
    InvalidArgument => InvalidArgument,
    OutOfRange => OutOfRange,
    NotFound => NotFound,
    AlreadyExists => AlreadyExists,
    /// A quota, a limit or the zone's capacity is exhausted.
    ResourceExhausted => ResourceExhausted,
    /// The state of the object forbids the request until another action changes it.
    FailedPrecondition => FailedPrecondition,
    /// An operation for this object is running, or its outcome is unknown. Repeat the same request.
    InProgress => Aborted,
    /// The page token is invalid. List from the beginning.
    BadPageToken => Aborted,
    /// EC2, the disk or the driver is unavailable now. Repeat the request.
    Unavailable => Unavailable,
    Unauthenticated => Unauthenticated,
    PermissionDenied => PermissionDenied,
    /// This version of the driver does not support the RPC.
    Unimplemented => Unimplemented,
    /// An error of another kind, whose outcome is known.
    Internal => Internal,
}

/// An error that has a gRPC status.
pub trait IntoStatus: Error {
    /// Returns the meaning, which depends on the type of the error and never on its text.
    fn meaning(&self) -> Meaning;

    /// Returns the next step for the user as a sentence fragment, if it is known.
    fn next_step(&self) -> Option<String> {
        None
    }

    /// Returns true when the work stopped only because no caller waited for it.
    fn is_abandoned(&self) -> bool {
        false
    }
}

/// Returns the gRPC status of an error. Its message has the chain of causes, without repetitions, and the next step.
pub fn to_status(error: &impl IntoStatus) -> Status {
    let mut message = chain(error);
    if let Some(next) = error.next_step() {
        let _ = write!(message, "; {next}");
    }
    status(error.meaning(), message)
}

/// Lets `?` convert an error into the status with which an RPC ends.
macro_rules! into_status {
    ($($error:ty),+) => {
        $(impl From<$error> for tonic::Status {
            fn from(error: $error) -> Self {
                crate::status::to_status(&error)
            }
        })+
    };
}
pub(crate) use into_status;

/// Returns a status for a message without an error type.
pub fn status(meaning: Meaning, message: impl AsRef<str>) -> Status {
    Status::new(meaning.code(), sendable(message.as_ref()))
}

/// Makes any text safe to send: escapes control characters, and shortens the middle of a long message. gRPC sends the
/// message in a header, and clients limit the size of headers.
fn sendable(message: &str) -> String {
    let mut escaped: Vec<char> = Vec::with_capacity(message.len());
    for c in message.chars() {
        match c {
            '"' | '\'' | '\\' => escaped.push(c),
            _ => escaped.extend(c.escape_debug()),
        }
    }
    if escaped.len() <= MAX_HEAD + MAX_TAIL {
        return escaped.into_iter().collect();
    }
    let tail_at = escaped.len() - MAX_TAIL;
    let (head, tail) = (escaped[..MAX_HEAD].iter(), escaped[tail_at..].iter());
    format!("{} … {} characters left out … {}", head.collect::<String>(), tail_at - MAX_HEAD, tail.collect::<String>())
}

/// Returns the status for an RPC that this version does not support.
pub fn unimplemented_rpc(rpc: Rpc) -> Status {
    status(
        Meaning::Unimplemented,
        format!("{rpc} is not supported by this driver, which does not announce it as a capability"),
    )
}

/// Returns the status for a request whose handler panicked. The outcome of the request is unknown.
pub fn broken_off(cause: &str) -> Status {
    status(
        Meaning::InProgress,
        format!(
            "the request ended unexpectedly and its outcome is unknown ({cause}); call again with the same request"
        ),
    )
}

/// Returns the text of an error and its causes, outermost first, without causes that the text already contains.
pub fn chain(error: &dyn Error) -> String {
    let mut message = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let text = error.to_string();
        if !message.contains(&text) {
            let _ = write!(message, ": {text}");
        }
        cause = error.source();
    }
    message
}

/// The outcome of an RPC, as far as the response headers show it.
pub(crate) struct ResponseStatus {
    pub(crate) code: &'static str,
    pub(crate) number: i32,
    pub(crate) failure: Option<String>,
    /// True if the driver or its environment has a fault that a retry does not fix. False if the request is at fault.
    pub(crate) definite_fault: bool,
    /// True if a server trace counts the outcome as an error, by OpenTelemetry's conventions.
    pub(crate) server_fault: bool,
}

impl ResponseStatus {
    /// Reads the headers of a response. A response without a status in its headers has succeeded.
    pub(crate) fn from_headers(headers: &http::HeaderMap) -> Self {
        match Status::from_header_map(headers) {
            Some(status) if status.code() != Code::Ok => {
                Self { failure: Some(status.message().to_owned()), ..Self::code(status.code()) }
            }
            _ => Self::code(Code::Ok),
        }
    }

    /// Returns the outcome of an RPC whose client left, or whose deadline passed, before the response.
    pub(crate) fn client_left() -> Self {
        Self::code(Code::Cancelled)
    }

    fn code(code: Code) -> Self {
        Self {
            code: name(code),
            number: i32::from(code),
            failure: None,
            definite_fault: matches!(code, Code::Internal | Code::Unknown | Code::DataLoss),
            server_fault: matches!(
                code,
                Code::Unknown
                    | Code::DeadlineExceeded
                    | Code::Unimplemented
                    | Code::Internal
                    | Code::Unavailable
                    | Code::DataLoss
            ),
        }
    }
}

fn name(code: Code) -> &'static str {
    match code {
        Code::Ok => "OK",
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
        Code::Internal => "Internal",
        Code::Unavailable => "Unavailable",
        Code::DataLoss => "DataLoss",
        Code::Unauthenticated => "Unauthenticated",
    }
}

#[cfg(test)]
mod tests;
