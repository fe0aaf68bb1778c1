//! Resource ids, with the checks that EC2 makes.

use crate::api::Fault;

use super::faults;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Volume,
    Snapshot,
    Instance,
}

impl Kind {
    pub(super) fn prefix(self) -> &'static str {
        match self {
            Self::Volume => "vol-",
            Self::Snapshot => "snap-",
            Self::Instance => "i-",
        }
    }

    /// Returns the name of the kind in DescribeTags and tag specifications.
    pub(super) fn resource_type(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Snapshot => "snapshot",
            Self::Instance => "instance",
        }
    }

    pub(super) fn of(id: &str) -> Option<Self> {
        [Self::Volume, Self::Snapshot, Self::Instance].into_iter().find(|kind| id.starts_with(kind.prefix()))
    }

    /// Returns EC2's name for a list of such ids. The error for a call with both ids and paging contains it.
    pub(super) fn set_name(self) -> &'static str {
        match self {
            Self::Volume => "volumeSet",
            Self::Snapshot => "snapshotSet",
            Self::Instance => "instancesSet",
        }
    }

    /// Rejects an invalid id of this kind. The error code depends on how the id is invalid, as in EC2.
    pub(super) fn check(self, id: &str) -> Result<(), Fault> {
        self.check_as(if self == Self::Volume { "volumeId" } else { "snapshotId" }, id)
    }

    pub(super) fn check_listed(self, id: &str) -> Result<(), Fault> {
        if self == Self::Snapshot && id.is_empty() {
            let message = "Value () for parameter snapshotId is invalid. Parameter may not be null or empty";
            return Err(faults::invalid_value(message));
        }
        self.check_as(if self == Self::Volume { "volumes" } else { "snapshotId" }, id)
    }

    fn check_as(self, parameter: &str, id: &str) -> Result<(), Fault> {
        let prefix = self.prefix();
        let Some(digits) = id.strip_prefix(prefix) else {
            return Err(match self {
                Self::Instance => {
                    let message = format!("Invalid id: \"{id}\" (expecting \"{prefix}...\")");
                    Fault::new("InvalidInstanceID.Malformed", message)
                }
                Self::Volume | Self::Snapshot => expected(parameter, id, prefix),
            });
        };
        if matches!(digits.len(), 8 | 17) && digits.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f')) {
            return Ok(());
        }
        let code = match self {
            Self::Volume => "InvalidVolumeID.Malformed",
            Self::Snapshot => "InvalidSnapshotID.Malformed",
            Self::Instance => "InvalidInstanceID.Malformed",
        };
        Err(Fault::new(code, format!("Invalid id: \"{id}\"")))
    }
}

fn expected(parameter: &str, id: &str, prefix: &str) -> Fault {
    faults::invalid_value(format!("Value ({id}) for parameter {parameter} is invalid. Expected: '{prefix}...'."))
}
