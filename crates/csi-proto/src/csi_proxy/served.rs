//! The API groups of csi-proxy, the versions of each group that a proxy serves, and the names of their pipes.

use std::fmt;
use std::str::FromStr;

use crate::csi_proxy::version::Version;

/// A group of calls, with its own service and versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    Disk,
    Volume,
    Filesystem,
    Smb,
    /// iSCSI, only in alpha versions.
    Iscsi,
    /// Services and firmware, only in an alpha version.
    System,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse group {text:?}: csi-proxy has no such group; use disk, volume, filesystem, smb, iscsi or system")]
pub struct UnknownGroup {
    text: String,
}

const ALPHA1: Version = Version::alpha(1, 1);
const ALPHA2: Version = Version::alpha(1, 2);
const BETA1: Version = Version::beta(1, 1);
const BETA2: Version = Version::beta(1, 2);
const BETA3: Version = Version::beta(1, 3);
const V1: Version = Version::stable(1);
const SECOND_ALPHA1: Version = Version::alpha(2, 1);

impl Group {
    pub const ALL: [Self; 6] = [Self::Disk, Self::Volume, Self::Filesystem, Self::Smb, Self::Iscsi, Self::System];

    /// Returns the group's name as it appears in pipe names.
    pub const fn token(self) -> &'static str {
        match self {
            Self::Disk => "disk",
            Self::Volume => "volume",
            Self::Filesystem => "filesystem",
            Self::Smb => "smb",
            Self::Iscsi => "iscsi",
            Self::System => "system",
        }
    }

    /// Returns the name of the group's gRPC service, without the package, which is the version.
    pub const fn service(self) -> &'static str {
        match self {
            Self::Disk => "Disk",
            Self::Volume => "Volume",
            Self::Filesystem => "Filesystem",
            Self::Smb => "Smb",
            Self::Iscsi => "Iscsi",
            Self::System => "System",
        }
    }

    /// Returns the versions that a proxy serves, oldest first.
    pub const fn versions(self) -> &'static [Version] {
        match self {
            Self::Disk => &[ALPHA1, BETA1, BETA2, BETA3, V1],
            Self::Volume => &[ALPHA1, BETA1, BETA2, BETA3, V1, SECOND_ALPHA1],
            Self::Filesystem => &[ALPHA1, BETA1, BETA2, V1, SECOND_ALPHA1],
            Self::Smb => &[ALPHA1, BETA1, BETA2, V1],
            Self::Iscsi => &[ALPHA1, ALPHA2],
            Self::System => &[ALPHA1],
        }
    }
}

/// Returns all pairs of group and version that a proxy serves.
pub fn served() -> impl Iterator<Item = (Group, Version)> {
    Group::ALL.into_iter().flat_map(|group| group.versions().iter().map(move |version| (group, *version)))
}

/// Returns the pipe on which a proxy serves the pair. Clients that double the backslashes reach the same pipe.
pub fn pipe_name(group: Group, version: Version) -> String {
    format!(r"\\.\pipe\csi-proxy-{group}-{version}")
}

impl fmt::Display for Group {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.token())
    }
}

impl FromStr for Group {
    type Err = UnknownGroup;

    fn from_str(text: &str) -> Result<Self, UnknownGroup> {
        let found = Self::ALL.into_iter().find(|group| group.token() == text);
        found.ok_or_else(|| UnknownGroup { text: text.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_23_group_versions_has_its_own_pipe() {
        let pipes: std::collections::BTreeSet<String> =
            served().map(|(group, version)| pipe_name(group, version)).collect();
        assert_eq!((pipes.len(), served().count()), (23, 23));
        for pipe in [r"\\.\pipe\csi-proxy-disk-v1", r"\\.\pipe\csi-proxy-volume-v2alpha1"] {
            assert!(pipes.contains(pipe), "{pipes:?}");
        }
    }

    #[test]
    fn versions_of_each_group_are_listed_oldest_first() {
        assert!(Group::ALL.iter().all(|group| group.versions().is_sorted()));
        assert_eq!("iscsi".parse(), Ok(Group::Iscsi));
        assert!("Disk".parse::<Group>().is_err());
    }
}
