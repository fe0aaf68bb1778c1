//! The EBS volume types and their published ranges.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Gib, IopsLimits};

/// A volume type. The names and ranges come from the Amazon EBS user guide, "Amazon EBS volume types".
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum VolumeType {
    /// General purpose SSD, previous generation.
    Gp2,
    /// General purpose SSD, the default.
    Gp3,
    /// Provisioned IOPS SSD, previous generation.
    Io1,
    /// Provisioned IOPS SSD (Block Express).
    Io2,
    /// Throughput optimised HDD.
    St1,
    /// Cold HDD.
    Sc1,
    /// Magnetic, previous generation.
    Standard,
    /// A type that this version does not know. EC2 decides whether a request for it is valid.
    Other(String),
}

const KNOWN: [VolumeType; 7] = [
    VolumeType::Gp2,
    VolumeType::Gp3,
    VolumeType::Io1,
    VolumeType::Io2,
    VolumeType::St1,
    VolumeType::Sc1,
    VolumeType::Standard,
];

impl VolumeType {
    /// All volume types that a user can request.
    pub fn known() -> &'static [VolumeType] {
        &KNOWN
    }

    /// Returns the known type with this name. Ignores case.
    pub fn parse_known(text: &str) -> Option<Self> {
        KNOWN.iter().find(|t| t.as_str().eq_ignore_ascii_case(text)).cloned()
    }

    /// Returns the name that the EC2 API uses.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Gp2 => "gp2",
            Self::Gp3 => "gp3",
            Self::Io1 => "io1",
            Self::Io2 => "io2",
            Self::St1 => "st1",
            Self::Sc1 => "sc1",
            Self::Standard => "standard",
            Self::Other(name) => name,
        }
    }

    /// Returns the smallest and largest size, for messages and defaults only, or `None` for unknown types.
    pub fn size_range(&self) -> Option<(Gib, Gib)> {
        match self {
            Self::Gp2 => Some((Gib(1), Gib(16_384))),
            Self::Gp3 => Some((Gib(1), Gib(65_536))),
            Self::Io1 => Some((Gib(4), Gib(16_384))),
            Self::Io2 => Some((Gib(4), Gib(65_536))),
            Self::St1 | Self::Sc1 => Some((Gib(125), Gib(16_384))),
            Self::Standard => Some((Gib(1), Gib(1024))),
            Self::Other(_) => None,
        }
    }

    /// Returns false if EC2 certainly rejects a number of IOPS for the type.
    pub fn has_iops_to_choose(&self) -> bool {
        match self {
            Self::Gp3 | Self::Io1 | Self::Io2 | Self::Other(_) => true,
            Self::Gp2 | Self::St1 | Self::Sc1 | Self::Standard => false,
        }
    }

    /// Returns false if EC2 is certain to reject a throughput for the type.
    pub fn has_throughput_to_choose(&self) -> bool {
        match self {
            Self::Gp3 | Self::Other(_) => true,
            Self::Gp2 | Self::Io1 | Self::Io2 | Self::St1 | Self::Sc1 | Self::Standard => false,
        }
    }

    /// Returns the published IOPS limits, if the user can choose the IOPS. A zone or Outpost may have a lower maximum.
    pub fn iops_limits(&self) -> Option<IopsLimits> {
        match self {
            Self::Io1 => Some(IopsLimits { min: 100, max: 64_000, per_gib: 50 }),
            Self::Io2 => Some(IopsLimits { min: 100, max: 256_000, per_gib: 1000 }),
            Self::Gp3 => Some(IopsLimits { min: 3000, max: 80_000, per_gib: 500 }),
            Self::Gp2 | Self::St1 | Self::Sc1 | Self::Standard | Self::Other(_) => None,
        }
    }
}

impl From<String> for VolumeType {
    fn from(name: String) -> Self {
        Self::parse_known(&name).unwrap_or(Self::Other(name))
    }
}

impl From<VolumeType> for String {
    fn from(t: VolumeType) -> String {
        t.as_str().to_owned()
    }
}

impl fmt::Display for VolumeType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_volume_types_have_their_published_limits() {
        let rows = [
            ("gp2", (1, 16_384), None, false),
            ("gp3", (1, 65_536), Some((3000, 80_000, 500)), true),
            ("io1", (4, 16_384), Some((100, 64_000, 50)), false),
            ("io2", (4, 65_536), Some((100, 256_000, 1000)), false),
            ("st1", (125, 16_384), None, false),
            ("sc1", (125, 16_384), None, false),
            ("standard", (1, 1024), None, false),
        ];
        assert_eq!(rows.len(), VolumeType::known().len());
        for (name, range, limits, has_throughput) in rows {
            let t = VolumeType::parse_known(name).unwrap();
            assert_eq!((t.as_str(), VolumeType::parse_known(&name.to_uppercase()).as_ref()), (name, Some(&t)));
            assert_eq!(t.size_range().map(|(least, most)| (least.0, most.0)), Some(range), "{name}");
            assert_eq!(t.iops_limits().map(|l| (l.min, l.max, l.per_gib)), limits, "{name}");
            assert_eq!((t.has_iops_to_choose(), t.has_throughput_to_choose()), (limits.is_some(), has_throughput));
        }
    }

    #[test]
    fn unknown_volume_type_is_kept_and_left_to_ec2() {
        assert_eq!(VolumeType::parse_known("gp9"), None);
        let other = VolumeType::from("gp9".to_owned());
        assert_eq!(other, VolumeType::Other("gp9".into()));
        assert!(other.has_iops_to_choose() && other.has_throughput_to_choose());
    }
}
