//! The combined effects of all rules on one call.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::Fault;

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Arrival {
    #[default]
    Done,
    /// The message is lost, and the connection breaks after this time.
    Lost(Duration),
    Refused(Fault),
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Departure {
    #[default]
    Delivered,
    /// The message is lost, and the connection breaks after this time.
    Lost(Duration),
    Replaced(Fault),
    Corrupted(Corruption),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Corruption {
    Garbage,
    Truncated,
    /// The reply is valid XML, padded to this many bytes.
    Oversized(u64),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Attachment {
    StuckAttaching,
    StuckDetaching,
    /// The attachment becomes `busy` and stays so.
    Busy,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Device {
    /// The device appears this long after EC2 reports it as attached.
    Late(Duration),
    /// The device appears without the link for its volume id.
    OtherName,
    /// The device disappears this long after it appeared.
    Vanish(Duration),
    /// Reads and writes of the device fail, starting this long after the device appeared.
    IoError(Duration),
}

/// The effects of one call on the state and the data plane.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FaultInjection {
    /// The age of the objects that a read shows.
    pub(crate) lag: Option<Duration>,
    pub(crate) attachment: Option<Attachment>,
    pub(crate) device: Option<Device>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    pub(crate) before: Duration,
    pub(crate) arrival: Arrival,
    pub(crate) injection: FaultInjection,
    pub(crate) after: Duration,
    pub(crate) departure: Departure,
    /// The kinds of the effects, in the order of their rules.
    pub(crate) kinds: Vec<String>,
}

impl Plan {
    /// Returns whether the reply must wait.
    pub(crate) fn takes_time(&self) -> bool {
        let lost = |time: &Duration| !time.is_zero();
        let arrival = matches!(&self.arrival, Arrival::Lost(after) if lost(after));
        let departure = matches!(&self.departure, Departure::Lost(after) if lost(after));
        !self.before.is_zero() || !self.after.is_zero() || arrival || departure
    }
}
