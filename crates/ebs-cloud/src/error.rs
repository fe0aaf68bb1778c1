//! What a policy operation can end with, by meaning.
//!
//! Decision: `docs/decisions/0003-return-final-codes-only-for-proven-outcomes.md`.

use ebs_ec2::Ec2Error;

use crate::object::Object;

/// Why an operation did not succeed. `message` names the object, the step and the rule; EC2's own words, code and
/// request id are in `cause`, which is also the [`std::error::Error::source`], so that a printed chain says everything
/// once.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CloudError {
    pub kind: CloudErrorKind,
    pub message: String,
    #[source]
    pub cause: Option<Box<Ec2Error>>,
}

/// What an error means. Closed: whoever maps it to a code maps all of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudErrorKind {
    /// The object that the request is about does not exist. Proven where a sidecar forgets something after it; a read
    /// that finds nothing says so at once, unless this process has known the object within the last 15 s.
    NotFound(Object),
    /// The snapshot or volume that the new object was to be made from does not exist.
    SourceNotFound(Object),
    /// An object of that name lives and differs from what is asked for.
    AlreadyExists,
    /// The request can never succeed as it is.
    InvalidArgument,
    /// A size that cannot be met.
    OutOfRange,
    /// A quota or ceiling of the account or the instance; nothing was done.
    LimitExceeded,
    /// No place that the request allows has room; nothing was done. Another place may.
    InsufficientCapacity,
    /// The object is in a state that forbids the step: in use, attached elsewhere, too soon, other zone, unusable key.
    FailedPrecondition,
    /// The bound of the operation was reached while EC2 still works on it; the next attempt goes on waiting.
    InProgress,
    /// A mutation may or may not have been carried out: the next attempt looks first.
    OutcomeUnknown,
    /// Nobody waits for the operation any more: no further mutation was started.
    Abandoned,
    /// EC2 could not be reached or would not serve us now (throttled to the end of the bound); nothing was done.
    Unavailable,
    /// EC2 does not accept our credentials: missing, wrong or expired, or our clock is off.
    Unauthenticated,
    /// The credentials do not allow it.
    Unauthorized,
    /// A paging token that nobody issued, or too long ago.
    BadPageToken,
    /// Anything else: definite, nothing was done.
    Internal,
}

impl CloudErrorKind {
    /// True when a sidecar forgets what it asked for after this.
    pub fn is_final(&self) -> bool {
        match self {
            Self::InProgress | Self::OutcomeUnknown | Self::Abandoned | Self::Unavailable => false,
            Self::NotFound(_)
            | Self::SourceNotFound(_)
            | Self::AlreadyExists
            | Self::InvalidArgument
            | Self::OutOfRange
            | Self::LimitExceeded
            | Self::InsufficientCapacity
            | Self::FailedPrecondition
            | Self::Unauthenticated
            | Self::Unauthorized
            | Self::BadPageToken
            | Self::Internal => true,
        }
    }

    pub fn error(self, message: impl Into<String>) -> CloudError {
        CloudError { kind: self, message: message.into(), cause: None }
    }
}

impl CloudError {
    pub(crate) fn not_found(object: Object) -> Self {
        let message = format!("{object} does not exist");
        CloudErrorKind::NotFound(object).error(message)
    }

    pub(crate) fn source_not_found(object: Object) -> Self {
        let message = format!("{object}, the source, does not exist");
        CloudErrorKind::SourceNotFound(object).error(message)
    }

    pub(crate) fn bad_page_token(token: &str) -> Self {
        let message = format!("the paging token {token:?} is not valid (any more): list from the beginning");
        CloudErrorKind::BadPageToken.error(message)
    }

    /// The same, because of that answer of EC2, if there was one.
    pub(crate) fn caused_by(self, cause: impl Into<Option<Ec2Error>>) -> Self {
        Self { cause: cause.into().map(Box::new), ..self }
    }

    /// True when the object asked about does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind, CloudErrorKind::NotFound(_))
    }

    /// The same, but never final: a describe could not be had, so that what an earlier attempt has left behind is
    /// unknown.
    pub(crate) fn unproven(self) -> Self {
        if self.kind.is_final() { Self { kind: CloudErrorKind::OutcomeUnknown, ..self } } else { self }
    }
}
