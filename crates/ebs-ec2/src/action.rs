//! The actions, and the observer of their calls.

use std::fmt;
use std::time::Duration;

/// An action that the driver calls: of EC2, and for HyperPod nodes two of SageMaker and one of STS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Action {
    AttachClusterNodeVolume,
    AttachVolume,
    CopyVolumes,
    CreateSnapshot,
    CreateTags,
    CreateVolume,
    DeleteSnapshot,
    DeleteTags,
    DeleteVolume,
    DescribeAvailabilityZones,
    DescribeInstances,
    DescribeInstanceTypes,
    DescribeLockedSnapshots,
    DescribeSnapshots,
    DescribeVolumes,
    DescribeVolumeStatus,
    DescribeVolumesModifications,
    DetachClusterNodeVolume,
    DetachVolume,
    EnableFastSnapshotRestores,
    GetCallerIdentity,
    LockSnapshot,
    ModifyVolume,
}

impl Action {
    /// Returns the name on the wire.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AttachClusterNodeVolume => "AttachClusterNodeVolume",
            Self::AttachVolume => "AttachVolume",
            Self::CopyVolumes => "CopyVolumes",
            Self::CreateSnapshot => "CreateSnapshot",
            Self::CreateTags => "CreateTags",
            Self::CreateVolume => "CreateVolume",
            Self::DeleteSnapshot => "DeleteSnapshot",
            Self::DeleteTags => "DeleteTags",
            Self::DeleteVolume => "DeleteVolume",
            Self::DescribeAvailabilityZones => "DescribeAvailabilityZones",
            Self::DescribeInstances => "DescribeInstances",
            Self::DescribeInstanceTypes => "DescribeInstanceTypes",
            Self::DescribeLockedSnapshots => "DescribeLockedSnapshots",
            Self::DescribeSnapshots => "DescribeSnapshots",
            Self::DescribeVolumes => "DescribeVolumes",
            Self::DescribeVolumeStatus => "DescribeVolumeStatus",
            Self::DescribeVolumesModifications => "DescribeVolumesModifications",
            Self::DetachClusterNodeVolume => "DetachClusterNodeVolume",
            Self::DetachVolume => "DetachVolume",
            Self::EnableFastSnapshotRestores => "EnableFastSnapshotRestores",
            Self::GetCallerIdentity => "GetCallerIdentity",
            Self::LockSnapshot => "LockSnapshot",
            Self::ModifyVolume => "ModifyVolume",
        }
    }

    /// Returns true for a mutating action. The adapter never retries such a call.
    pub fn mutates(self) -> bool {
        !self.as_str().starts_with("Describe") && self != Self::GetCallerIdentity
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// One finished call.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    pub action: Action,
    /// The time from sending to the reply or its failure.
    pub took: Duration,
    pub dry_run: bool,
    /// `None` for success.
    pub error: Option<&'a crate::Ec2Error>,
}

/// One HTTP request and its outcome. A call has one, and a repeated describe has several.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    pub action: Action,
    pub dry_run: bool,
    /// The time from handing the request to the connection until the end of the reply, or until the request was given
    /// up.
    pub took: Duration,
    pub outcome: AttemptOutcome<'a>,
}

/// The outcome of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome<'a> {
    /// A successful answer.
    Succeeded,
    /// A throttle. AWS did nothing.
    Throttled,
    /// An error answer with this code.
    Refused(&'a str),
    /// No answer, or an unreadable one.
    Unanswered,
}

/// Receives every call. Its methods must not block.
pub trait Observer: Send + Sync + 'static {
    /// A call has ended.
    fn observe(&self, observation: &Observation<'_>);

    /// The rate limiter delayed a call by `time`.
    fn waited(&self, action: Action, time: Duration) {
        let _nobody_counts = (action, time);
    }

    /// A spare token paid for an extra call, which replaced a longer wait.
    fn spared(&self, action: Action) {
        let _nobody_counts = action;
    }

    /// A wait for the effect of the action ended by time, although EC2 had returned data that should identify the end.
    fn ended_by_time(&self, action: Action) {
        let _nobody_counts = action;
    }

    /// An HTTP request of a call has ended. Metrics count these.
    fn attempted(&self, _attempt: &Attempt<'_>) {}
}
