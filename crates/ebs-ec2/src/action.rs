//! The actions and who is told of each call.

use std::fmt;
use std::time::Duration;

/// An action that the driver calls: of EC2, and for HyperPod nodes two of SageMaker and one of STS.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "the names are EC2's own")]
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
    /// The name on the wire.
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

    /// True when the action changes something: such a call is never repeated by the SDK.
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
    /// What was called.
    pub action: Action,
    /// From sending to the reply or its failure.
    pub took: Duration,
    /// It only asked whether it would work.
    pub dry_run: bool,
    /// `None` for success.
    pub error: Option<&'a crate::Ec2Error>,
}

/// One HTTP request and what came of it: a call has one, a repeated describe several.
#[derive(Debug, Clone, Copy)]
pub struct Attempt<'a> {
    /// What was called.
    pub action: Action,
    /// The call only asks whether it would work.
    pub dry_run: bool,
    /// From handing the request to the connection to the end of the reply, or until it was given up.
    pub took: Duration,
    /// What came of it.
    pub outcome: AttemptOutcome<'a>,
}

/// What came of an HTTP request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AttemptOutcome<'a> {
    /// An answer that says yes.
    Succeeded,
    /// Slow down: nothing was done.
    Throttled,
    /// An error answer with this code.
    Refused(&'a str),
    /// No answer, or none that can be read.
    Unanswered,
}

/// Is told of every call; must not block.
pub trait Observer: Send + Sync + 'static {
    /// A call has ended.
    fn observe(&self, observation: &Observation<'_>);

    /// A call was held back for that long, because EC2 is believed to take no more now.
    fn waited(&self, action: Action, time: Duration) {
        let _nobody_counts = (action, time);
    }

    /// One more call was made, with a token that nobody needed, to learn at once what time would have told.
    fn spared(&self, action: Action) {
        let _nobody_counts = action;
    }

    /// A wait for what that action had begun was ended by time, although EC2 had said how to know the end itself.
    fn ended_by_time(&self, action: Action) {
        let _nobody_counts = action;
    }

    /// An HTTP request of a call has ended. Metrics count these.
    fn attempted(&self, _attempt: &Attempt<'_>) {}
}
