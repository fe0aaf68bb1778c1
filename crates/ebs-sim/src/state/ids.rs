//! Ids: made at random, checked as EC2 checks them.

use crate::api::Fault;

use super::faults;

/// A kind of object that has ids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Volume,
    Snapshot,
    Instance,
}

impl Kind {
    fn prefix(self) -> &'static str {
        match self {
            Self::Volume => "vol-",
            Self::Snapshot => "snap-",
            Self::Instance => "i-",
        }
    }

    /// The name EC2 uses in DescribeTags and tag specifications.
    pub(super) fn resource_type(self) -> &'static str {
        match self {
            Self::Volume => "volume",
            Self::Snapshot => "snapshot",
            Self::Instance => "instance",
        }
    }

    /// The kind that an id claims to be of.
    pub(super) fn of(id: &str) -> Option<Self> {
        [Self::Volume, Self::Snapshot, Self::Instance].into_iter().find(|kind| id.starts_with(kind.prefix()))
    }

    /// A new id: 17 random hexadecimal digits. Random also where tests repeat themselves, since the names of devices
    /// under `/dev` are made of ids and `/dev` is shared by all simulators of a machine (`decisions.md` D-64).
    pub(super) fn new_id(self) -> String {
        format!("{}0{}", self.prefix(), random_hex::<8>())
    }

    /// Refuses what cannot be an id of the kind; both of EC2's codes for it occur.
    pub(super) fn check(self, id: &str) -> Result<(), Fault> {
        let prefix = self.prefix();
        let Some(digits) = id.strip_prefix(prefix) else {
            return Err(match self {
                Self::Instance => Fault::new("InvalidInstanceID.Malformed", format!("Invalid id: \"{id}\"")),
                Self::Volume => expected("volume", id, prefix),
                Self::Snapshot => expected("snapshotId", id, prefix),
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
        Err(Fault::new(code, format!("Invalid id: \"{id}\" (expecting \"{prefix}...\")")))
    }
}

fn expected(parameter: &str, id: &str, prefix: &str) -> Fault {
    faults::invalid_value(format!("Value ({id}) for parameter {parameter} is invalid. Expected: '{prefix}...'."))
}

/// `N` random bytes as hexadecimal digits.
pub(super) fn random_hex<const N: usize>() -> String {
    let mut bytes = [0_u8; N];
    getrandom::fill(&mut bytes).expect("the system's random source answers at any time after boot");
    hex::encode(bytes)
}
