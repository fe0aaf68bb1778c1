//! Behaviour that was observed in EC2 in some places or at some times. The simulator shows it only on request.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Maximum lag of descriptions of instances: EC2's guide mentions minutes.
pub(crate) const MAX_INSTANCES_LAG: Duration = Duration::from_mins(5);

/// All are off by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oddities {
    /// Zones that reject an io2 volume over any limit (size, IOPS, or their ratio) with the same sentence.
    pub io2_limits_as_one: Vec<String>,
    /// A full instance accepts another volume, which then stays `attaching`, as until 2022.
    pub full_instances_attach_for_ever: bool,
    /// A full last page has a token, and the next page is empty.
    pub tokens_after_full_pages: bool,
    /// Mutating calls return "not found" for recently created objects that a description may not show yet. The time is
    /// random for each object, up to the maximum lag of descriptions.
    pub changes_meet_the_lag: bool,
    /// Descriptions of instances may lag up to this many milliseconds, at most 5 min. Other descriptions lag by
    /// [`super::Consistency`].
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
