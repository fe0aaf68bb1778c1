//! Behaviour that EC2 shows only in some places or at some times. The simulator shows it only on request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum lag of instance descriptions. EC2's guide mentions minutes.
pub(crate) const MAX_INSTANCES_LAG: Duration = Duration::from_mins(5);

/// Optional behaviour. All of it is off by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oddities {
    /// Zones that reject an io2 volume over any limit (size, IOPS, or their ratio) with one common message.
    pub io2_limits_as_one: Vec<String>,
    /// Whether a full instance accepts another volume, which then stays `attaching`, as in EC2 until 2022.
    pub full_instances_attach_for_ever: bool,
    /// Whether a full last page returns a token for an empty next page.
    pub tokens_after_full_pages: bool,
    /// Whether mutating calls return "not found" for a recently created object that reads may not show yet. For each
    /// object, this lasts for a random time, up to the maximum lag of reads.
    pub changes_meet_the_lag: bool,
    /// Maximum lag of instance descriptions in milliseconds, at most 5 min. [`super::Consistency`] sets the lag of
    /// other descriptions.
    pub instances_max_lag_ms: Option<u64>,
}

impl Oddities {
    pub(crate) fn has_one_io2_sentence(&self, zone: &str) -> bool {
        self.io2_limits_as_one.iter().any(|named| named == zone)
    }

    pub(crate) fn instances_max_lag(&self) -> Option<Duration> {
        self.instances_max_lag_ms.map(|lag| Duration::from_millis(lag).min(MAX_INSTANCES_LAG))
    }
}
