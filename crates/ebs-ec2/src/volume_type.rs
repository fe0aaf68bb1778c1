//! EBS volume types and their published ranges.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{Gib, IopsLimits};

/// A volume type. Source of names and ranges: the Amazon EBS user guide, "Amazon EBS volume types".
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
    /// A type that this version does not know. EC2 may report it, and EC2 decides whether a request for it is valid.
    Other(String),
}

/// Every type that can be requested.
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
    /// Every type that can be requested.
    pub fn known() -> &'static [VolumeType] {
        &KNOWN
    }

    /// Returns the known type with this name, in any case.
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

    /// Returns the smallest and largest size in GiB, for orientation only: EC2 enforces the limits. `None` for unknown
    /// types.
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

    /// False if EC2 certainly rejects a number of IOPS for the type (Amazon EBS user guide, "Amazon EBS volume types").
    pub fn has_iops_to_choose(&self) -> bool {
        match self {
            Self::Gp3 | Self::Io1 | Self::Io2 | Self::Other(_) => true,
            Self::Gp2 | Self::St1 | Self::Sc1 | Self::Standard => false,
        }
    }

    /// False if EC2 certainly rejects a throughput for the type (same source).
    pub fn has_throughput_to_choose(&self) -> bool {
        match self {
            Self::Gp3 | Self::Other(_) => true,
            Self::Gp2 | Self::Io1 | Self::Io2 | Self::St1 | Self::Sc1 | Self::Standard => false,
        }
    }

    /// Returns the published IOPS limits, or `None` if the IOPS cannot be chosen. The maximum is for orientation only:
    /// a zone or an Outpost may allow less, and EC2 may allow more in the future.
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
    fn known_type_is_parsed_from_its_name_in_any_case() {
        for t in VolumeType::known() {
            assert_eq!(VolumeType::parse_known(t.as_str()).as_ref(), Some(t));
            assert_eq!(VolumeType::parse_known(&t.as_str().to_uppercase()).as_ref(), Some(t));
        }
        assert_eq!(VolumeType::parse_known("gp9"), None);
        assert_eq!(VolumeType::from("gp9".to_owned()), VolumeType::Other("gp9".into()));
    }

    #[test]
    fn only_io1_io2_and_gp3_have_iops_limits_as_published() {
        for t in VolumeType::known() {
            let expected = match t.as_str() {
                "io1" => Some((100, 64_000, 50)),
                "io2" => Some((100, 256_000, 1000)),
                "gp3" => Some((3000, 80_000, 500)),
                _ => None,
            };
            assert_eq!(t.iops_limits().map(|l| (l.min, l.max, l.per_gib)), expected, "{t}");
        }
    }

    #[test]
    fn iops_and_throughput_choices_are_known_for_each_type() {
        let choices = |t: &VolumeType| (t.has_iops_to_choose(), t.has_throughput_to_choose());
        for t in VolumeType::known() {
            assert_eq!(choices(t).0, t.iops_limits().is_some(), "{t}");
            assert_eq!(choices(t).1, *t == VolumeType::Gp3, "{t}");
        }
        assert_eq!(
            choices(&VolumeType::Other("gp9".into())),
            (true, true),
            "EC2 decides about a type that this version does not know"
        );
    }

    #[test]
    fn known_type_has_its_published_size_range() {
        let ranges: Vec<_> = VolumeType::known()
            .iter()
            .filter_map(|t| t.size_range().map(|(least, most)| (t.as_str(), least.0, most.0)))
            .collect();
        for expected in [
            ("gp2", 1, 16_384),
            ("gp3", 1, 65_536),
            ("io1", 4, 16_384),
            ("io2", 4, 65_536),
            ("st1", 125, 16_384),
            ("sc1", 125, 16_384),
            ("standard", 1, 1024),
        ] {
            assert!(ranges.contains(&expected), "{expected:?} in {ranges:?}");
        }
    }
}
