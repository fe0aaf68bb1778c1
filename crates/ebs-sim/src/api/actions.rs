//! The names of all actions, for rules and limits that name them.

/// Every action of the simulated EC2, and SageMaker's two for HyperPod nodes.
pub(crate) const ALL: &[&str] = &[
    "AttachClusterNodeVolume",
    "AttachVolume",
    "CopyVolumes",
    "CreateSnapshot",
    "CreateTags",
    "CreateVolume",
    "DeleteSnapshot",
    "DeleteTags",
    "DeleteVolume",
    "DescribeAvailabilityZones",
    "DescribeFastSnapshotRestores",
    "DescribeInstanceTypes",
    "DescribeInstances",
    "DescribeLockedSnapshots",
    "DescribeSnapshots",
    "DescribeTags",
    "DescribeVolumeStatus",
    "DescribeVolumes",
    "DescribeVolumesModifications",
    "DetachClusterNodeVolume",
    "DetachVolume",
    "EnableFastSnapshotRestores",
    "LockSnapshot",
    "ModifyVolume",
    "RunInstances",
    "TerminateInstances",
];

/// True when an action is meant by a pattern: its name, or a beginning of it followed by `*`.
pub(crate) fn matches(pattern: &str, action: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => action.starts_with(beginning),
        None => pattern == action,
    }
}

/// True when a pattern means no action at all: a slip of the pen.
pub(crate) fn names_none(pattern: &str) -> bool {
    !ALL.iter().any(|action| matches(pattern, action))
}
