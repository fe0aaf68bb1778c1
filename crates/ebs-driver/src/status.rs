//! Converts errors into gRPC statuses. Only this file uses `tonic::Code`.
//!
//! A sidecar forgets a volume after a *final* code. Where the outcome of a mutation is not proven, the meaning is
//! [`Meaning::InProgress`] or [`Meaning::Unavailable`], which are never final.
//!
//! Decision: `docs/decisions/0003-return-final-codes-only-for-proven-outcomes.md`.

use std::error::Error;
use std::fmt::Write;

use tonic::{Code, Status};

use crate::rpc::Rpc;

/// The number of characters that are kept at the beginning of a message that is longer than both limits.
const MAX_HEAD: usize = 1_500;
/// The number of characters that are kept at its end, which contains the next step.
const MAX_TAIL: usize = 500;

macro_rules! meanings {
    ($($(#[$doc:meta])+ $meaning:ident => $code:ident,)+) => {
        /// The meaning of an error for the caller. Each domain error of this crate has one through [`IntoStatus`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Meaning {
            $($(#[$doc])+ $meaning,)+
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
    /// The request itself is invalid, and a retry cannot succeed.
    InvalidArgument => InvalidArgument,
    /// A number is outside the valid range.
    OutOfRange => OutOfRange,
    /// The named object does not exist.
    NotFound => NotFound,
    /// An object with this name exists and is different.
    AlreadyExists => AlreadyExists,
    /// A quota, a limit or the zone's capacity is exhausted.
    ResourceExhausted => ResourceExhausted,
    /// The state of the object forbids the request. Another action must happen first.
    FailedPrecondition => FailedPrecondition,
    /// An operation for this object is running, or its outcome is unknown. Repeat the same request.
    InProgress => Aborted,
    /// The page token is invalid. List from the beginning.
    BadPageToken => Aborted,
    /// EC2, the disk or the driver is unavailable now. Repeat the request.
    Unavailable => Unavailable,
    /// Credentials are missing or wrong.
    Unauthenticated => Unauthenticated,
    /// The credentials do not permit the action.
    PermissionDenied => PermissionDenied,
    /// Not supported by this version.
    Unimplemented => Unimplemented,
    /// A definite error of another kind.
    Internal => Internal,
}

/// An error of an RPC.
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

/// Returns the gRPC status of an error, with its chain of causes without repetitions, and the next step.
pub fn to_status(error: &impl IntoStatus) -> Status {
    let mut message = chain(error);
    if let Some(next) = error.next_step() {
        let _ = write!(message, "; {next}");
    }
    status(error.meaning(), message)
}

/// Lets `?` end an RPC with the status of an error.
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

/// Creates a status without a domain error.
pub fn status(meaning: Meaning, message: impl AsRef<str>) -> Status {
    Status::new(meaning.code(), sendable(message.as_ref()))
}

/// Makes a message safe to send and to show, because a request may contain any text of any length. Escapes control
/// characters. Shortens a long message in the middle, because the message is sent in a header, whose size clients
/// limit.
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

/// Returns the status for a request whose handler panicked, so that the outcome is unknown.
pub fn broken_off(cause: &str) -> Status {
    status(
        Meaning::InProgress,
        format!(
            "the request ended unexpectedly and its outcome is unknown ({cause}); call again with the same request"
        ),
    )
}

/// Returns the text of an error and all its causes, outermost first. Skips a cause whose text the message already
/// contains.
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

/// The response of an RPC, as far as its headers show it.
pub(crate) struct ResponseStatus {
    /// The name of the code in the spelling of Go.
    pub(crate) code: &'static str,
    /// The number of the code on the wire.
    pub(crate) number: i32,
    /// The message of an error.
    pub(crate) failure: Option<String>,
    /// A fault of the driver or its environment, and not of the request, which a retry does not fix.
    pub(crate) definite_fault: bool,
    /// A trace of the server counts it as an error. By OpenTelemetry, the client's mistakes are not errors of the
    /// server.
    pub(crate) server_fault: bool,
}

impl ResponseStatus {
    /// Reads a response. A response without a status in its headers is a success.
    pub(crate) fn from_headers(headers: &http::HeaderMap) -> Self {
        match Status::from_header_map(headers) {
            Some(status) if status.code() != Code::Ok => {
                Self { failure: Some(status.message().to_owned()), ..Self::code(status.code()) }
            }
            _ => Self::code(Code::Ok),
        }
    }

    /// Returns the result of an RPC without a response, because the client left or its deadline passed.
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
