//! The effects that rules have on calls.

use serde::{Deserialize, Serialize};

/// One effect. Times are in milliseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Effect {
    /// The request is lost: the call is not executed, and there is no reply.
    LoseRequest {
        /// Time until the connection breaks.
        #[serde(default)]
        after_ms: u64,
    },
    /// The call is executed, but its reply is lost.
    LoseReply {
        /// Time until the connection breaks.
        #[serde(default)]
        after_ms: u64,
    },
    /// The request arrives late. The call is executed on arrival, even if the client has disconnected.
    DelayRequest {
        /// Minimum delay.
        ms: u64,
        /// Maximum random time added to `ms`.
        #[serde(default)]
        spread_ms: u64,
    },
    /// The reply is sent late.
    DelayReply {
        /// Minimum delay.
        ms: u64,
        /// Maximum random time added to `ms`.
        #[serde(default)]
        spread_ms: u64,
    },
    /// The call fails with `RequestLimitExceeded` and is not executed.
    Throttle,
    Error {
        /// EC2's error code, such as `InternalError`.
        code: String,
        #[serde(default = "no_message")]
        message: String,
        /// HTTP status, 400 to 599.
        #[serde(default = "internal")]
        status: u16,
        /// Whether the call is executed despite the error.
        #[serde(default)]
        after_doing: bool,
    },
    /// The call is executed, and the reply is invalid XML.
    Garbage,
    /// The call is executed, and the reply is truncated.
    Truncate,
    /// The call is executed, and the reply is padded to this size.
    Oversize {
        /// Size in bytes, at most 1 GiB.
        bytes: u64,
    },
    /// A read shows every object as it was `lag_ms` ago.
    Stale {
        /// At most 15 s, the longest known lag of EC2.
        lag_ms: u64,
    },
    /// AttachVolume: the attachment stays `attaching` until it is released or detached.
    StuckAttaching,
    /// DetachVolume: the attachment stays `detaching` until it is released.
    StuckDetaching,
    /// DetachVolume: the attachment becomes `busy` and stays so until it is released.
    Busy,
    /// AttachVolume: EC2 reports `attached`, but the device appears only `ms` later.
    DeviceLate {
        /// Delay of the device.
        ms: u64,
    },
    /// AttachVolume: the device appears without the link for its volume id.
    DeviceOtherName,
    /// AttachVolume: the device disappears without a detachment.
    DeviceVanish {
        /// Time from the appearance of the device to the fault.
        after_ms: u64,
    },
    /// AttachVolume: reads and writes of the device fail.
    DeviceIoError {
        /// Time from the appearance of the device to the fault.
        after_ms: u64,
    },
    /// Another client of the account uses this fraction of every bucket from which the rule's actions take tokens.
    Eat {
        /// The fraction, 0 to 1.
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
    /// Returns the name of the effect's kind in JSON.
    pub fn kind(&self) -> String {
        let json = serde_json::to_value(self).expect("an effect is plain data");
        json["kind"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns an error effect with this code and status.
    pub fn error(code: impl Into<String>, status: u16, after_doing: bool) -> Self {
        Self::Error { code: code.into(), message: no_message(), status, after_doing }
    }

    /// Returns the only action to which the effect applies, or `None` if it applies to any.
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
