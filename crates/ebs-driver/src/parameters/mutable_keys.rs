//! The keys of a VolumeAttributesClass for the parser, with their documentation.

use super::{Described, PV_NAME_KEY, PVC_NAME_KEY, PVC_NAMESPACE_KEY};

/// The meaning of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Parameter {
    Type,
    DeprecatedType,
    Iops,
    IopsPerGib,
    AutoIopsOnModify,
    Throughput,
    PvcName,
    PvcNamespace,
    PvName,
}

const COUNT: &str = "whole number; 0 or less: unset";
const FROM_SIDECAR: &str = "text; added by the resizer (`--extra-modify-metadata`)";

/// Every key, in the order of the documentation.
pub(super) const KEYS: [(Parameter, Described); 9] = [
    (
        Parameter::Type,
        Described::new("type", "`gp3`, `gp2`, `io2` …; another one is left to EC2", "EBS volume type").or("as it is"),
    ),
    (
        Parameter::DeprecatedType,
        Described::new("volumeType", "as `type`", "deprecated: as `type`, which wins where both are there"),
    ),
    (
        Parameter::Iops,
        Described::new("iops", COUNT, "IOPS of the volume; more than the type can have are lowered, with a warning in the log")
            .or("as they are")
            .not("`iopsPerGB`"),
    ),
    (
        Parameter::IopsPerGib,
        Described::new(
            "iopsPerGB",
            COUNT,
            "IOPS for each GiB of the volume, within the type's limits; recorded in the tag `ebs.csi.aws.com/IOPSPerGb`",
        )
        .not("`iops`"),
    ),
    (
        Parameter::AutoIopsOnModify,
        Described::new(
            "allowAutoIOPSIncreaseOnModify",
            "`true` or `false`",
            "raise IOPS by the recorded `iopsPerGB` with each expansion and modification; recorded in the tag \
             `ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify`",
        )
        .or("as recorded"),
    ),
    (
        Parameter::Throughput,
        Described::new("throughput", COUNT, "MiB/s of the volume; gp3 only").or("as it is"),
    ),
    (Parameter::PvcName, Described::new(PVC_NAME_KEY, FROM_SIDECAR, "`.PVCName` in templates")),
    (Parameter::PvcNamespace, Described::new(PVC_NAMESPACE_KEY, FROM_SIDECAR, "`.PVCNamespace` in templates")),
    (Parameter::PvName, Described::new(PV_NAME_KEY, FROM_SIDECAR, "`.PVName` in templates")),
];
