//! The effects of rules on calls.

use serde::{Deserialize, Serialize};

/// One effect. Times are milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// The request is lost: nothing is done, and there is no reply.
    LoseRequest {
        /// Time until the connection breaks.
        #[serde(default)]
        after_ms: u64,
    },
    /// The call is executed, and its reply is lost.
    LoseReply {
        /// Time until the connection breaks.
        #[serde(default)]
        after_ms: u64,
    },
    /// The request arrives late. It is executed then, even if the client has left.
    DelayRequest {
        /// Minimum delay.
        ms: u64,
        /// Maximum random addition.
        #[serde(default)]
        spread_ms: u64,
    },
    /// The reply is sent late.
    DelayReply {
        /// Minimum delay.
        ms: u64,
        /// Maximum random addition.
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
        /// The call is executed anyway.
        #[serde(default)]
        after_doing: bool,
    },
    /// The call is executed, and the reply is invalid XML.
    Garbage,
    /// The call is executed, and the reply is truncated.
    Truncate,
    /// The call is executed, and the reply is padded to this size.
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
    /// On AttachVolume: EC2 reports `attached`, and the device appears this much later.
    DeviceLate {
        /// Delay of the device.
        ms: u64,
    },
    /// On AttachVolume: the device appears without the link for its volume id.
    DeviceOtherName,
    /// On AttachVolume: the device disappears by itself.
    DeviceVanish {
        /// Time after it appeared.
        after_ms: u64,
    },
    /// On AttachVolume: reads and writes of the device fail.
    DeviceIoError {
        /// Time after it appeared.
        after_ms: u64,
    },
    /// Another client of the account takes this fraction of every bucket that the rule's actions use.
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
    /// Returns its kind, as in JSON.
    pub fn kind(&self) -> String {
        let json = serde_json::to_value(self).expect("an effect is plain data");
        json["kind"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns an error effect with this code and status.
    pub fn error(code: impl Into<String>, status: u16, after_doing: bool) -> Self {
        Self::Error { code: code.into(), message: no_message(), status, after_doing }
    }

    /// Returns the only action to which it applies; `None`: any.
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
