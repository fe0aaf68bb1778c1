//! What a policy operation can end with, by meaning.

use std::fmt;

use ebs_ec2::{Ec2Error, ErrorClass};
use ebs_types::{InstanceId, SnapshotId, VolumeId};

/// An EC2 object that an error is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Object {
    /// A volume.
    Volume(VolumeId),
    /// A snapshot.
    Snapshot(SnapshotId),
    /// An instance.
    Instance(InstanceId),
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Volume(id) => write!(f, "volume {id}"),
            Self::Snapshot(id) => write!(f, "snapshot {id}"),
            Self::Instance(id) => write!(f, "instance {id}"),
        }
    }
}

/// Why an operation did not succeed. Closed: whoever maps it to a code maps all of it.
///
/// `message` names the object, the step and the rule; EC2's own words, code and request id are in `cause`, which is
/// also the [`std::error::Error::source`], so that a printed chain says everything once.
#[derive(Debug, Clone, thiserror::Error)]
pub enum CloudError {
    /// The object that the request is about does not exist: proven, not merely unseen.
    #[error("{object} does not exist")]
    NotFound {
        /// What is missing.
        object: Object,
        /// EC2's answer, when a call was refused for it.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// The snapshot or volume that the new object was to be made from does not exist.
    #[error("{object}, the source, does not exist")]
    SourceNotFound {
        /// What is missing.
        object: Object,
        /// EC2's answer, when a call was refused for it.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// An object of that name lives and differs from what is asked for.
    #[error("{message}")]
    AlreadyExists {
        /// Which object, and how it differs.
        message: String,
        /// EC2's answer that led to the describe.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// The request can never succeed as it is.
    #[error("{message}")]
    InvalidArgument {
        /// What is wrong.
        message: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// A size that cannot be met.
    #[error("{message}")]
    OutOfRange {
        /// Which size, and what bounds it.
        message: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// A quota or ceiling of the account or the instance; nothing was done.
    #[error("{message}")]
    LimitExceeded {
        /// Which one.
        message: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// No place that the request allows has room; nothing was done. Another place may.
    #[error("{message}")]
    InsufficientCapacity {
        /// What was tried.
        message: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// The object is in a state that forbids the step: in use, attached elsewhere, too soon, other zone, unusable key.
    #[error("{message}")]
    FailedPrecondition {
        /// Which state, and what to do.
        message: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// The bound of the operation was reached while EC2 still works on it; the next attempt goes on waiting.
    #[error("{message}")]
    InProgress {
        /// What was waited for.
        message: String,
        /// The last answer of EC2 that was an error.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// A mutation may or may not have been carried out. Never final: the next attempt looks first.
    #[error("{message}")]
    OutcomeUnknown {
        /// Which one.
        message: String,
        /// Why it is unknown.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// Nobody waits for the operation any more: no further mutation was started.
    #[error("{step}: nobody waits for it any more, nothing further was started")]
    Abandoned {
        /// The step before which it stopped.
        step: String,
    },
    /// EC2 could not be reached or would not serve us now (throttled to the end of the bound); nothing was done.
    #[error("{message}")]
    Unavailable {
        /// Which step.
        message: String,
        /// Why.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// EC2 refuses our credentials, or what they may do.
    #[error("{message}")]
    Unauthorized {
        /// Which step.
        message: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// A paging token that nobody issued, or too long ago.
    #[error("the paging token {token:?} is not valid (any more): list from the beginning")]
    BadPageToken {
        /// The token.
        token: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
    /// Anything else: definite, nothing was done.
    #[error("{message}")]
    Internal {
        /// Which step.
        message: String,
        /// EC2's answer.
        #[source]
        cause: Option<Box<Ec2Error>>,
    },
}

impl CloudError {
    /// EC2's error behind this one.
    pub fn ec2(&self) -> Option<&Ec2Error> {
        match self {
            Self::NotFound { cause, .. }
            | Self::SourceNotFound { cause, .. }
            | Self::AlreadyExists { cause, .. }
            | Self::InvalidArgument { cause, .. }
            | Self::OutOfRange { cause, .. }
            | Self::LimitExceeded { cause, .. }
            | Self::InsufficientCapacity { cause, .. }
            | Self::FailedPrecondition { cause, .. }
            | Self::InProgress { cause, .. }
            | Self::OutcomeUnknown { cause, .. }
            | Self::Unavailable { cause, .. }
            | Self::Unauthorized { cause, .. }
            | Self::BadPageToken { cause, .. }
            | Self::Internal { cause, .. } => cause.as_deref(),
            Self::Abandoned { .. } => None,
        }
    }

    /// True when the object asked about does not exist.
    pub fn is_not_found(&self) -> bool {
        matches!(self, Self::NotFound { .. })
    }

    /// True when a sidecar forgets what it asked for after this (`sidecars.md` 1).
    pub fn is_final(&self) -> bool {
        !matches!(
            self,
            Self::InProgress { .. } | Self::OutcomeUnknown { .. } | Self::Abandoned { .. } | Self::Unavailable { .. }
        )
    }

    /// The same, but never final: a describe could not be had, so that what an earlier attempt has left behind is
    /// unknown.
    pub(crate) fn unproven(self) -> Self {
        if !self.is_final() {
            return self;
        }
        Self::OutcomeUnknown { message: self.to_string(), cause: self.ec2().cloned().map(Box::new) }
    }
}

/// What a refused call means where the operation has no rule of its own for its class. `step` says what was being
/// done to what, as a fragment: `attach vol-1 to i-2`.
pub(crate) fn refused(step: &str, error: Ec2Error) -> CloudError {
    let message = format!("{step}: {}", reason(error.class));
    let class = error.class;
    let cause = Some(Box::new(error));
    match class {
        ErrorClass::MalformedId
        | ErrorClass::InvalidParameter
        | ErrorClass::Unsupported
        | ErrorClass::VolumeNotFound
        | ErrorClass::SnapshotNotFound
        | ErrorClass::InstanceNotFound => CloudError::InvalidArgument { message, cause },
        ErrorClass::AttachmentNotFound
        | ErrorClass::ModificationNotFound
        | ErrorClass::IncorrectState
        | ErrorClass::VolumeInUse
        | ErrorClass::SnapshotInUse
        | ErrorClass::DeviceNameInUse
        | ErrorClass::ZoneMismatch
        | ErrorClass::ModificationCooldown
        | ErrorClass::Encryption => CloudError::FailedPrecondition { message, cause },
        ErrorClass::IdempotentMismatch => CloudError::AlreadyExists { message, cause },
        ErrorClass::LimitExceeded(_) => CloudError::LimitExceeded { message, cause },
        ErrorClass::InsufficientCapacity => CloudError::InsufficientCapacity { message, cause },
        ErrorClass::SnapshotCooldown | ErrorClass::Throttled | ErrorClass::NotSent => {
            CloudError::Unavailable { message, cause }
        }
        ErrorClass::BadToken => CloudError::BadPageToken { token: String::new(), cause },
        ErrorClass::Unauthenticated | ErrorClass::Unauthorized => CloudError::Unauthorized { message, cause },
        ErrorClass::Ambiguous => CloudError::OutcomeUnknown { message, cause },
        ErrorClass::DryRunSucceeded | ErrorClass::Other => CloudError::Internal { message, cause },
    }
}

/// The rule behind a class, in our words.
fn reason(class: ErrorClass) -> &'static str {
    match class {
        ErrorClass::VolumeNotFound => "the volume does not exist",
        ErrorClass::SnapshotNotFound => "the snapshot does not exist",
        ErrorClass::InstanceNotFound => "the instance does not exist",
        ErrorClass::AttachmentNotFound => "there is no such attachment",
        ErrorClass::ModificationNotFound => "there is no such modification",
        ErrorClass::MalformedId => "an id cannot be one",
        ErrorClass::IncorrectState => "the state of the object forbids it",
        ErrorClass::VolumeInUse => "the volume is in use: detach it first",
        ErrorClass::SnapshotInUse => "the snapshot is in use or locked",
        ErrorClass::DeviceNameInUse => "the device name is taken",
        ErrorClass::IdempotentMismatch => "the name was used before with other parameters",
        ErrorClass::LimitExceeded(_) => "a quota is reached: delete something or have the quota raised",
        ErrorClass::InsufficientCapacity => "the zone has no room for such a volume now",
        ErrorClass::ZoneMismatch => "volume and instance are in different zones",
        ErrorClass::InvalidParameter => "EC2 refuses a parameter",
        ErrorClass::Unsupported => "EC2 does not support this here",
        ErrorClass::ModificationCooldown => "too soon after earlier modifications of the volume",
        ErrorClass::SnapshotCooldown => "too soon after the last snapshot of the volume",
        ErrorClass::BadToken => "the paging token is not valid",
        ErrorClass::DryRunSucceeded => "EC2 answered a dry run that was none",
        ErrorClass::Throttled => "EC2 asks us to slow down",
        ErrorClass::Unauthenticated => "EC2 does not accept the credentials: check that they exist and are current",
        ErrorClass::Unauthorized => "the credentials do not allow it: check the driver's IAM policy",
        ErrorClass::Encryption => {
            "the KMS key cannot be used: check that it exists, is enabled and that its policy lets the driver use it"
        }
        ErrorClass::NotSent => "EC2 cannot be reached: check endpoint, name resolution and network",
        ErrorClass::Ambiguous => "EC2 gave no clear answer, it may have been done",
        ErrorClass::Other => "EC2 refused it",
    }
}
