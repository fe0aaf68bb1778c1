//! How far a volume is with what it still has to load.

use std::time::Duration;

use ebs_types::VolumeId;

/// The detail that tells of initialisation.
const INITIALIZATION: &str = "initialization-state";

/// Status of a volume as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeStatus {
    /// The volume.
    pub volume: VolumeId,
    /// The details of its status, name and word; `None` when EC2 gave no status or no list.
    pub details: Option<Vec<(String, String)>>,
    /// EC2's estimate of the time to the end of initialisation.
    pub estimate: Option<Duration>,
}

impl VolumeStatus {
    /// True while blocks are still loaded from a snapshot. Without a word on it the volume is initialised; `None`
    /// when EC2 gave no details at all, which says nothing.
    pub fn initializing(&self) -> Option<bool> {
        let details = self.details.as_ref()?;
        Some(details.iter().any(|(name, word)| name == INITIALIZATION && word == "initializing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A volume initialises only when the detail `initialization-state` says so; no details at all say nothing.
    #[test]
    fn a_volume_initialises_only_when_a_detail_says_so_and_no_details_say_nothing() {
        let status = |details: Option<&[(&str, &str)]>| VolumeStatus {
            volume: VolumeId::parse("vol-1").unwrap(),
            details: details.map(|d| d.iter().map(|(n, w)| ((*n).to_owned(), (*w).to_owned())).collect()),
            estimate: None,
        };
        assert_eq!(status(None).initializing(), None);
        assert_eq!(status(Some(&[])).initializing(), Some(false));
        assert_eq!(status(Some(&[("io-enabled", "initializing")])).initializing(), Some(false));
        for (word, yes) in [("initializing", true), ("completed", false), ("something-new", false)] {
            let details = [("io-enabled", "passed"), ("initialization-state", word)];
            assert_eq!(status(Some(&details)).initializing(), Some(yes), "{word}");
        }
    }
}
