//! The errors of policy operations, by meaning.
//!
//! Decision: `docs/dev/decisions/0003-return-final-codes-only-for-proven-outcomes.md`.

use ebs_ec2::Ec2Error;

use crate::object::Object;

pub(crate) type Result<T, E = CloudError> = std::result::Result<T, E>;

/// Why an operation failed. `message` names the object, the step and the rule. `cause` has EC2's message, code and
/// request id, so that a log of the whole chain prints each fact once.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct CloudError {
    pub kind: CloudErrorKind,
    pub message: String,
    #[source]
    pub cause: Option<Box<Ec2Error>>,
}

/// The meaning of an error.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CloudErrorKind {
    /// The object does not exist. If a sidecar forgets the object after this error, the driver has proven its absence.
    NotFound(Object),
    /// The source snapshot or volume of the new object does not exist.
    SourceNotFound(Object),
    /// A live object with the name differs from the request.
    AlreadyExists,
    /// The request can never succeed as it was sent.
    InvalidArgument,
    /// The requested size is impossible.
    OutOfRange,
    /// The request exceeds a quota or limit of the account or the instance. EC2 did nothing.
    LimitExceeded,
    /// No zone or Outpost that the request allows has capacity. EC2 did nothing. Another zone may have capacity.
    InsufficientCapacity,
    /// A property of the object forbids the step, such as its use, its zone, its key or a recent change.
    FailedPrecondition,
    /// The operation reached its deadline while EC2 was still working. The next attempt continues to wait.
    InProgress,
    /// EC2 may or may not have carried out a mutation. The next attempt describes the object before it changes it.
    OutcomeUnknown,
    /// No client waits for the operation any more, and it started no further mutation.
    Abandoned,
    /// EC2 was unreachable, or throttled the calls until the deadline. EC2 did nothing.
    Unavailable,
    /// EC2 rejects our credentials: they are missing, wrong or expired, or our clock is wrong.
    Unauthenticated,
    /// EC2 does not permit the call with these credentials.
    Unauthorized,
    /// An invalid or expired page token.
    BadPageToken,
    /// Any other error that EC2 reported clearly. EC2 did nothing.
    Internal,
}

impl CloudErrorKind {
    /// Returns true if a sidecar forgets its request after this error, so the error must be proven.
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
        let message = format!("the source {object} does not exist");
        CloudErrorKind::SourceNotFound(object).error(message)
    }

    pub(crate) fn bad_page_token(token: &str) -> Self {
        let message = format!("page token {token:?} is invalid or expired; list from the beginning");
        CloudErrorKind::BadPageToken.error(message)
    }

    pub(crate) fn caused_by(self, cause: impl Into<Option<Ec2Error>>) -> Self {
        Self { cause: cause.into().map(Box::new), ..self }
    }

    /// Returns true if the error reports that the requested object does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self.kind, CloudErrorKind::NotFound(_))
    }

    /// Makes the error not final, because a describe failed and an earlier attempt may have left something behind.
    pub(crate) fn unproven(self) -> Self {
        if self.kind.is_final() { Self { kind: CloudErrorKind::OutcomeUnknown, ..self } } else { self }
    }
}
