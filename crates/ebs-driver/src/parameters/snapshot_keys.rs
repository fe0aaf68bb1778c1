//! The keys of a VolumeSnapshotClass for the parser, with their documentation.

use super::Described;

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    Name,
    Namespace,
    ContentName,
    FastRestoreZones,
    OutpostArn,
    LockMode,
    LockDuration,
    LockExpirationDate,
    LockCoolOffPeriod,
}

const FROM_SNAPSHOTTER: &str = "text; added by the snapshotter (`--extra-create-metadata`)";

/// Every key, in the order of the documentation.
pub(super) const KEYS: [(Parameter, Described); 9] = [
    (
        Parameter::FastRestoreZones,
        Described::new(
            "fastSnapshotRestoreAvailabilityZones",
            "zones such as `us-west-2a, us-west-2b`",
            "enable fast snapshot restore there, which AWS bills by the hour for each zone",
        ),
    ),
    (
        Parameter::OutpostArn,
        Described::new(
            "outpostArn",
            "ARN of an Outpost",
            "keep the snapshot on that Outpost, where its volume must be",
        )
        .with_default("the region"),
    ),
    (
        Parameter::LockMode,
        Described::new(
            "lockMode",
            "`governance` or `compliance`",
            "lock the snapshot; needs one of `lockDuration` and `lockExpirationDate`",
        )
        .with_default("no lock"),
    ),
    (
        Parameter::LockDuration,
        Described::new(
            "lockDuration",
            "days, 1 to 36500",
            "how long the lock lasts, from the completion of the snapshot",
        )
        .with_conflicts("`lockExpirationDate`; no `lockMode`"),
    ),
    (
        Parameter::LockExpirationDate,
        Described::new(
            "lockExpirationDate",
            "a time such as `2040-12-31T23:59:59Z`, in the future",
            "when the lock ends",
        )
        .with_conflicts("`lockDuration`; no `lockMode`"),
    ),
    (
        Parameter::LockCoolOffPeriod,
        Described::new(
            "lockCoolOffPeriod",
            "hours, 1 to 72",
            "how long a compliance lock can still be lifted or changed; without it, never",
        )
        .with_conflicts("`lockMode: governance`; no `lockMode`"),
    ),
    (
        Parameter::Name,
        Described::new(
            "csi.storage.k8s.io/volumesnapshot/name",
            FROM_SNAPSHOTTER,
            "`.VolumeSnapshotName` in templates",
        ),
    ),
    (
        Parameter::Namespace,
        Described::new(
            "csi.storage.k8s.io/volumesnapshot/namespace",
            FROM_SNAPSHOTTER,
            "`.VolumeSnapshotNamespace` in templates",
        ),
    ),
    (
        Parameter::ContentName,
        Described::new(
            "csi.storage.k8s.io/volumesnapshotcontent/name",
            FROM_SNAPSHOTTER,
            "`.VolumeSnapshotContentName` in templates",
        ),
    ),
];
