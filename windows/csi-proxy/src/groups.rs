//! The groups and versions to serve: all, unless `--api-groups` lists some.

use csi_proto::csi_proxy::{Group, Version, served};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiGroups(Vec<(Group, Version)>);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadApiGroups {
    #[error(transparent)]
    Group(#[from] csi_proto::csi_proxy::UnknownGroup),
    #[error(transparent)]
    Version(#[from] csi_proto::csi_proxy::BadVersion),
    #[error("group {group} has no version {version}")]
    NotServed { group: Group, version: Version },
}

impl ApiGroups {
    /// Parses `disk,volume/v1,…`. An empty text selects everything.
    pub fn parse(text: &str) -> Result<Self, BadApiGroups> {
        let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
        if parts.is_empty() {
            return Ok(Self(served().collect()));
        }
        let mut chosen = Vec::new();
        for part in parts {
            match part.split_once('/') {
                None => {
                    let group: Group = part.parse()?;
                    chosen.extend(group.versions().iter().map(|version| (group, *version)));
                }
                Some((group, version)) => {
                    let (group, version): (Group, Version) = (group.parse()?, version.parse()?);
                    if !group.versions().contains(&version) {
                        return Err(BadApiGroups::NotServed { group, version });
                    }
                    chosen.push((group, version));
                }
            }
        }
        chosen.sort_unstable();
        chosen.dedup();
        Ok(Self(chosen))
    }

    pub fn pairs(&self) -> impl Iterator<Item = (Group, Version)> + '_ {
        self.0.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> Vec<String> {
        let groups = ApiGroups::parse(text).unwrap();
        groups.pairs().map(|(group, version)| format!("{group}/{version}")).collect()
    }

    #[test]
    fn api_groups_limit_the_pipes_to_groups_or_versions() {
        assert_eq!(chosen("").len(), 23);
        assert_eq!(chosen("disk,filesystem,volume").len(), 16);
        assert_eq!(chosen("smb/v1, disk/v1beta3 ,smb/v1"), ["disk/v1beta3", "smb/v1"]);
        assert_eq!(chosen("system,system/v1alpha1"), ["system/v1alpha1"]);
    }

    #[test]
    fn unknown_group_or_version_is_rejected_by_name() {
        for (text, named) in
            [("disks", "disks"), ("disk/v9", "v9"), ("iscsi/v1", "iscsi"), ("disk/", "\"\""), ("disk/v1/x", "v1/x")]
        {
            let error = ApiGroups::parse(text).unwrap_err().to_string();
            assert!(error.contains(named), "{text}: {error}");
        }
    }
}
