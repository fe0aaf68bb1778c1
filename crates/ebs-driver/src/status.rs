//! From errors to gRPC: the only file that names `tonic::Code`.
//!
//! A sidecar forgets a volume after a *final* code. Where the outcome of a mutation is not proven, the
//! meaning is [`Meaning::InProgress`] or [`Meaning::Unavailable`], never a final one.
//!
//! Decision: `docs/decisions/0003-return-final-codes-only-for-proven-outcomes.md`.

use std::error::Error;
use std::fmt::Write;

use tonic::{Code, Response, Status};

use crate::rpc::Rpc;

/// Of a message that is longer than both, so many characters at its beginning are told.
const MAX_HEAD: usize = 1_500;
/// And so many at its end, where the next step is.
const MAX_TAIL: usize = 500;

/// What an error means to whoever called. Each domain error of this crate has one through [`IntoStatus`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Meaning {
    /// The request itself is wrong; it will stay wrong.
    InvalidArgument,
    /// A number is outside what is possible.
    OutOfRange,
    /// The object named does not exist.
    NotFound,
    /// An object of that name exists and is different.
    AlreadyExists,
    /// A quota, a ceiling or the zone's capacity.
    ResourceExhausted,
    /// The object is in a state that forbids it; something else must happen first.
    FailedPrecondition,
    /// Something for this object is under way, or the outcome is not known: ask again with the same request.
    InProgress,
    /// A paging token that cannot be used: list from the beginning.
    BadPageToken,
    /// EC2, the disk or the driver cannot be reached just now: ask again.
    Unavailable,
    /// Credentials are missing or wrong.
    Unauthenticated,
    /// Credentials do not allow it.
    PermissionDenied,
    /// Not supported by this version.
    Unimplemented,
    /// Definite, and none of the others.
    Internal,
}

impl Meaning {
    pub const ALL: [Self; 13] = [
        Self::InvalidArgument,
        Self::OutOfRange,
        Self::NotFound,
        Self::AlreadyExists,
        Self::ResourceExhausted,
        Self::FailedPrecondition,
        Self::InProgress,
        Self::BadPageToken,
        Self::Unavailable,
        Self::Unauthenticated,
        Self::PermissionDenied,
        Self::Unimplemented,
        Self::Internal,
    ];

    fn code(self) -> Code {
        match self {
            Self::InvalidArgument => Code::InvalidArgument,
            Self::OutOfRange => Code::OutOfRange,
            Self::NotFound => Code::NotFound,
            Self::AlreadyExists => Code::AlreadyExists,
            Self::ResourceExhausted => Code::ResourceExhausted,
            Self::FailedPrecondition => Code::FailedPrecondition,
            Self::InProgress | Self::BadPageToken => Code::Aborted,
            Self::Unavailable => Code::Unavailable,
            Self::Unauthenticated => Code::Unauthenticated,
            Self::PermissionDenied => Code::PermissionDenied,
            Self::Unimplemented => Code::Unimplemented,
            Self::Internal => Code::Internal,
        }
    }
}

/// A meaning after which the caller takes into account that its request may have had an effect. For the kubelet, too, none
/// of their codes is final.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unsettled {
    /// [`Meaning::InProgress`].
    InProgress,
    /// [`Meaning::Unavailable`].
    Unavailable,
}

impl From<Unsettled> for Meaning {
    fn from(unsettled: Unsettled) -> Self {
        match unsettled {
            Unsettled::InProgress => Self::InProgress,
            Unsettled::Unavailable => Self::Unavailable,
        }
    }
}

/// An error that an RPC can end with.
pub trait IntoStatus: Error {
    /// What it means; decided by type, never by text.
    fn meaning(&self) -> Meaning;

    /// What to do next, as a sentence fragment, where that is known.
    fn next_step(&self) -> Option<String> {
        None
    }

    /// True when the work only stopped because no caller waited for it.
    fn is_abandoned(&self) -> bool {
        false
    }
}

/// The gRPC status of an error: its whole chain of causes, each said once, and what to do next.
pub fn to_status(error: &impl IntoStatus) -> Status {
    let mut message = chain(error);
    if let Some(next) = error.next_step() {
        let _ = write!(message, "; {next}");
    }
    status(error.meaning(), message)
}

/// The answer of an RPC from what its work ended with.
///
/// # Errors
/// The status of the error.
pub fn answer<T, E: IntoStatus>(ended: Result<T, E>) -> Result<Response<T>, Status> {
    ended.map(Response::new).map_err(|error| to_status(&error))
}

/// A status without a domain error behind it.
pub fn status(meaning: Meaning, message: impl AsRef<str>) -> Status {
    Status::new(meaning.code(), sendable(message.as_ref()))
}

/// The message as it travels and is shown: what a request holds may be anything, of any length. Characters that terminals act on
/// are escaped, and of a long message the middle is left out: it travels in a header, whose size clients limit.
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

/// The answer of an RPC that this version does not have.
pub fn unimplemented_rpc(rpc: Rpc) -> Status {
    status(
        Meaning::Unimplemented,
        format!("{rpc} is not supported by this driver, which does not announce it as a capability"),
    )
}

/// The answer to a request whose handler broke off: the outcome is not known.
pub fn broken_off(cause: &str) -> Status {
    status(
        Meaning::InProgress,
        format!(
            "the request ended unexpectedly and its outcome is unknown ({cause}); call again with the same request"
        ),
    )
}

/// The text of an error and of all that caused it, outermost first; a cause whose text was already said is left out.
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

/// What an RPC was answered, as far as its headers say.
pub(crate) struct Answer {
    /// Name of the code, as Go writes it.
    pub(crate) code: &'static str,
    /// Its number on the wire.
    pub(crate) number: i32,
    /// The message, when it is no success.
    pub(crate) failure: Option<String>,
    /// A fault of the driver or of what it stands on, not of the request or of the moment.
    pub(crate) definite_fault: bool,
    /// Traces of servers count it as an error: OpenTelemetry leaves the client's mistakes to the client.
    pub(crate) server_fault: bool,
}

impl Answer {
    /// Of a response; one without status in its headers is a success.
    pub(crate) fn of(headers: &http::HeaderMap) -> Self {
        match Status::from_header_map(headers) {
            Some(status) if status.code() != Code::Ok => {
                Self { failure: Some(status.message().to_owned()), ..Self::code(status.code()) }
            }
            _ => Self::code(Code::Ok),
        }
    }

    /// None was heard: the client left, or its deadline passed.
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
