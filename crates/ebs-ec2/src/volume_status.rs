//! The status of a volume, with the progress of its initialization.

use std::time::Duration;

use crate::VolumeId;

/// The name of the detail with the state of the initialization.
const INITIALIZATION: &str = "initialization-state";

/// The status of a volume as EC2 describes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeStatus {
    pub volume: VolumeId,
    /// The details of the status, as name and value. `None` if EC2 gave no status or no list.
    pub details: Option<Vec<(String, String)>>,
    /// EC2's estimate of the time until the end of the initialization.
    pub estimate: Option<Duration>,
}

impl VolumeStatus {
    /// Returns true while EC2 still loads blocks from a snapshot. Details without an initialization state mean that the
    /// volume is initialized. `None` without any details, which proves nothing.
    pub fn initializing(&self) -> Option<bool> {
        let details = self.details.as_ref()?;
        Some(details.iter().any(|(name, word)| name == INITIALIZATION && word == "initializing"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initialization_follows_the_detail_of_the_status() {
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
