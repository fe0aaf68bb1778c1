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
        Described::new("type", "`gp3`, `gp2`, `io2` …; EC2 checks any other type", "EBS volume type").with_default("unchanged"),
    ),
    (
        Parameter::DeprecatedType,
        Described::new("volumeType", "as `type`", "deprecated alias of `type`, which takes precedence"),
    ),
    (
        Parameter::Iops,
        Described::new("iops", COUNT, "IOPS of the volume; capped at the maximum of the type, with a warning in the log")
            .with_default("unchanged")
            .with_conflicts("`iopsPerGB`"),
    ),
    (
        Parameter::IopsPerGib,
        Described::new(
            "iopsPerGB",
            COUNT,
            "IOPS for each GiB of the volume, recorded in the tag `ebs.csi.aws.com/IOPSPerGb`, within the type's limits",
        )
        .with_conflicts("`iops`"),
    ),
    (
        Parameter::AutoIopsOnModify,
        Described::new(
            "allowAutoIOPSIncreaseOnModify",
            "`true` or `false`",
            "raise IOPS by the recorded `iopsPerGB` with each expansion and modification, recorded in the tag \
             `ebs.csi.aws.com/AllowAutoIOPSIncreaseOnModify`",
        )
        .with_default("as recorded"),
    ),
    (
        Parameter::Throughput,
        Described::new("throughput", COUNT, "MiB/s of the volume; gp3 only").with_default("unchanged"),
    ),
    (Parameter::PvcName, Described::new(PVC_NAME_KEY, FROM_SIDECAR, "`.PVCName` in templates")),
    (Parameter::PvcNamespace, Described::new(PVC_NAMESPACE_KEY, FROM_SIDECAR, "`.PVCNamespace` in templates")),
    (Parameter::PvName, Described::new(PV_NAME_KEY, FROM_SIDECAR, "`.PVName` in templates")),
];
