//! The AWS actions that the driver calls, and the observer of the calls.

use std::fmt;
use std::time::Duration;

/// An action that the driver calls. All are EC2's, except two of SageMaker and one of STS for HyperPod nodes.
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
    /// Returns the name that requests use for the action.
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

    /// Returns true if the action changes a resource. The adapter never retries such a call.
    pub fn mutates(self) -> bool {
        !self.as_str().starts_with("Describe") && self != Self::GetCallerIdentity
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A finished call.
#[derive(Debug, Clone)]
pub struct Observation<'a> {
    pub action: Action,
    /// The time from sending the request until the reply arrived or the call failed.
    pub took: Duration,
    pub dry_run: bool,
    /// The error, or `None` if the call succeeded.
    pub error: Option<&'a crate::Ec2Error>,
}

/// An HTTP request and its outcome. A mutating call sends one request, and a repeated describe sends several.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    pub action: Action,
    pub dry_run: bool,
    /// The time from handing the request to the connection until the reply was complete or the request was abandoned.
    pub took: Duration,
    pub outcome: AttemptOutcome<'a>,
}

/// The outcome of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome<'a> {
    /// A successful answer.
    Succeeded,
    /// AWS throttled the request and did nothing.
    Throttled,
    /// AWS refused the request with this error code.
    Refused(&'a str),
    /// AWS sent no answer, or an unreadable one.
    Unanswered,
}

/// Receives a report of every call. Its methods must not block.
pub trait Observer: Send + Sync + 'static {
    /// Reports that a call has ended.
    fn observe(&self, observation: &Observation<'_>);

    /// Reports that the rate limiter delayed a call by this time.
    fn waited(&self, _action: Action, _time: Duration) {}

    /// Reports that a spare token was spent on an extra call, to avoid a longer wait.
    fn spared(&self, _action: Action) {}

    /// Reports that a wait for the action's effect ended only because enough time had passed, although EC2 had returned
    /// data that should have identified the effect.
    fn ended_by_time(&self, _action: Action) {}

    /// Reports that an HTTP request of a call has ended. Metrics count these requests.
    fn attempted(&self, _attempt: &Attempt<'_>) {}
}
