//! What is going to happen to one call, all rules taken together.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::api::Fault;

/// What happens to the request.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Arrival {
    #[default]
    Done,
    /// It gets lost; the connection breaks after this time.
    Lost(Duration),
    /// It is refused, and nothing is done.
    Refused(Fault),
}

/// What happens to the reply.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) enum Departure {
    #[default]
    Delivered,
    /// It gets lost; the connection breaks after this time.
    Lost(Duration),
    /// An error is sent instead.
    Replaced(Fault),
    /// It is sent, and not readable.
    Corrupted(Corruption),
}

/// How a reply becomes unreadable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Corruption {
    /// It is no XML.
    Garbage,
    /// It ends in the middle.
    Truncated,
    /// It is padded to this many bytes.
    Oversized(u64),
}

/// What happens to an attachment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Attachment {
    /// It stays `attaching`.
    StuckAttaching,
    /// It stays `detaching`.
    StuckDetaching,
    /// It becomes `busy` and stays so.
    Busy,
}

/// What happens to a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Device {
    /// It appears so much later than EC2 says.
    Late(Duration),
    /// It appears without the link made of its volume id.
    OtherName,
    /// It goes away so long after it appeared.
    Vanish(Duration),
    /// Its reads and writes fail so long after it appeared.
    IoError(Duration),
}

/// What is injected into the state and the data plane with this call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FaultInjection {
    /// A read shows things as they were so long ago.
    pub(crate) lag: Option<Duration>,
    /// The attachment that the call is about.
    pub(crate) attachment: Option<Attachment>,
    pub(crate) device: Option<Device>,
}

/// All of it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Plan {
    /// The request is on its way so long.
    pub(crate) before: Duration,
    pub(crate) arrival: Arrival,
    pub(crate) injection: FaultInjection,
    /// The reply is on its way so long.
    pub(crate) after: Duration,
    pub(crate) departure: Departure,
    /// Kinds of the effects, in the order of their rules.
    pub(crate) kinds: Vec<&'static str>,
}

impl Plan {
    /// True when the call cannot be answered at once.
    pub(crate) fn takes_time(&self) -> bool {
        let lost = |time: &Duration| !time.is_zero();
        let arrival = matches!(&self.arrival, Arrival::Lost(after) if lost(after));
        let departure = matches!(&self.departure, Departure::Lost(after) if lost(after));
        !self.before.is_zero() || !self.after.is_zero() || arrival || departure
    }
}
