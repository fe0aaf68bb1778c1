//! What a rule does to a call.

use serde::{Deserialize, Serialize};

/// One effect. Times are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// The request gets lost: nothing is done, and nobody answers.
    LoseRequest {
        /// After this time the connection breaks.
        #[serde(default)]
        after_ms: u64,
    },
    /// The work is done, and its reply gets lost.
    LoseReply {
        /// After this time the connection breaks.
        #[serde(default)]
        after_ms: u64,
    },
    /// The request arrives late; it is carried out then, even when the client has left.
    DelayRequest {
        /// At least this much.
        ms: u64,
        /// And up to this much more.
        #[serde(default)]
        spread_ms: u64,
    },
    /// The reply leaves late.
    DelayReply {
        /// At least this much.
        ms: u64,
        /// And up to this much more.
        #[serde(default)]
        spread_ms: u64,
    },
    /// `RequestLimitExceeded`; nothing is done.
    Throttle,
    Error {
        /// EC2's code, `InternalError`.
        code: String,
        #[serde(default = "no_message")]
        message: String,
        /// HTTP status, 400 to 599.
        #[serde(default = "internal")]
        status: u16,
        /// The work is done all the same.
        #[serde(default)]
        after_doing: bool,
    },
    /// The work is done; the reply is no XML.
    Garbage,
    /// The work is done; the reply ends in the middle.
    Truncate,
    /// The work is done; the reply is padded to this size.
    Oversize {
        /// Bytes, at most 1 GiB.
        bytes: u64,
    },
    /// A read shows every object as it was this long ago.
    Stale {
        /// At most 15 s, the longest that EC2 is known to lag.
        lag_ms: u64,
    },
    /// On AttachVolume: the attachment stays `attaching` until it is released or detached.
    StuckAttaching,
    /// On DetachVolume: the attachment stays `detaching` until it is released.
    StuckDetaching,
    /// On DetachVolume: the attachment becomes `busy` and stays so until it is released.
    Busy,
    /// On AttachVolume: EC2 says `attached`, and the device appears this much later.
    DeviceLate {
        /// How much later.
        ms: u64,
    },
    /// On AttachVolume: the device appears without the link that its volume id would give it.
    DeviceOtherName,
    /// On AttachVolume: the device goes away by itself.
    DeviceVanish {
        /// So long after it appeared.
        after_ms: u64,
    },
    /// On AttachVolume: reads and writes of the device fail.
    DeviceIoError {
        /// So long after it appeared.
        after_ms: u64,
    },
    /// Another client of the account takes this part of every bucket that the rule's actions draw on.
    Eat {
        /// 0 to 1.
        fraction: f64,
    },
}

fn internal() -> u16 {
    500
}

fn no_message() -> String {
    "An internal error has occurred".to_owned()
}

impl Effect {
    /// Its kind, as in JSON.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LoseRequest { .. } => "lose-request",
            Self::LoseReply { .. } => "lose-reply",
            Self::DelayRequest { .. } => "delay-request",
            Self::DelayReply { .. } => "delay-reply",
            Self::Throttle => "throttle",
            Self::Error { .. } => "error",
            Self::Garbage => "garbage",
            Self::Truncate => "truncate",
            Self::Oversize { .. } => "oversize",
            Self::Stale { .. } => "stale",
            Self::StuckAttaching => "stuck-attaching",
            Self::StuckDetaching => "stuck-detaching",
            Self::Busy => "busy",
            Self::DeviceLate { .. } => "device-late",
            Self::DeviceOtherName => "device-other-name",
            Self::DeviceVanish { .. } => "device-vanish",
            Self::DeviceIoError { .. } => "device-io-error",
            Self::Eat { .. } => "eat",
        }
    }

    /// An error answer of this code and status.
    pub fn error(code: impl Into<String>, status: u16, after_doing: bool) -> Self {
        Self::Error { code: code.into(), message: no_message(), status, after_doing }
    }

    /// The actions that it can happen to; `None`: any.
    pub(super) fn only_on(&self) -> Option<&'static str> {
        match self {
            Self::StuckAttaching
            | Self::DeviceLate { .. }
            | Self::DeviceOtherName
            | Self::DeviceVanish { .. }
            | Self::DeviceIoError { .. } => Some("AttachVolume"),
            Self::StuckDetaching | Self::Busy => Some("DetachVolume"),
            Self::Stale { .. } => Some("Describe*"),
            _ => None,
        }
    }
}
