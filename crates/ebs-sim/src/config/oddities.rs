//! What EC2 was seen to do in some places or at some times, and the simulator does only when it is asked to.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The longest that descriptions of instances may be made to lag: EC2's guide speaks of minutes.
pub(crate) const MAX_INSTANCES_LAG: Duration = Duration::from_mins(5);

/// Each is off by default.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Oddities {
    /// Zones that refuse whatever is too much of an io2 volume (size, IOPS, or their ratio) with one and the same
    /// sentence.
    pub io2_limits_as_one: Vec<String>,
    /// An instance that is full takes another volume all the same, which then stays `attaching`, as until 2022.
    pub full_instances_attach_for_ever: bool,
    /// A last page that is full carries a token, and the page after it is empty.
    pub tokens_after_full_pages: bool,
    /// Calls that change something answer "not found" for what was made so short a while ago that a description may not
    /// show it: each object within a time drawn up to the greatest lag of descriptions.
    pub changes_meet_the_lag: bool,
    /// Descriptions of instances may lag up to so many milliseconds, at most 5 min, where other descriptions lag as
    /// [`super::Consistency`] says.
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
