//! The status of a volume, with the progress of its initialization.

use std::time::Duration;

use crate::VolumeId;

/// The status of a volume as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeStatus {
    pub volume: VolumeId,
    /// The names and values of the status details, or `None` if EC2 gave no status or no list.
    pub details: Option<Vec<(String, String)>>,
    /// EC2's estimate of how long the initialization still takes.
    pub estimate: Option<Duration>,
}

impl VolumeStatus {
    /// Returns true while EC2 is still loading blocks from a snapshot. `None` means that EC2 sent no details, which
    /// proves nothing. If the details have no initialization state, the volume is initialized.
    pub fn initializing(&self) -> Option<bool> {
        let details = self.details.as_ref()?;
        Some(details.iter().any(|(name, word)| name == "initialization-state" && word == "initializing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialization_state_comes_from_the_status_details() {
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
