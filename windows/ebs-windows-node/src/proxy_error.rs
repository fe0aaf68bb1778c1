//! Errors of csi-proxy calls.

use std::time::Duration;

use tonic::Status;

/// A failed call of csi-proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The proxy returned an error.
    #[error("call csi-proxy's {call}: {message}")]
    Refused {
        /// The method.
        call: &'static str,
        /// The whole text; there are no error codes.
        message: String,
    },
    /// The proxy does not have the call.
    #[error("call csi-proxy's {call}: unsupported: {message}")]
    Unsupported {
        /// The method.
        call: &'static str,
        /// The whole text.
        message: String,
    },
    /// The proxy was busy and did nothing.
    #[error("call csi-proxy's {call}: busy: {message}")]
    Busy {
        /// The method.
        call: &'static str,
        /// Its text.
        message: String,
    },
    /// The proxy was not reachable, or the connection broke. The outcome of the call is unknown.
    #[error("call csi-proxy's {call}")]
    Unreachable {
        /// The method.
        call: &'static str,
        /// The cause.
        #[source]
        status: Box<Status>,
    },
    /// The reply did not arrive in time. The call continues in the proxy.
    #[error("call csi-proxy's {call}: no reply within {within:?}")]
    Late {
        /// The method.
        call: &'static str,
        /// How long the driver waited.
        within: Duration,
    },
    /// An invalid reply.
    #[error("call csi-proxy's {call}: unexpected reply: {what}")]
    Odd {
        /// The method.
        call: &'static str,
        /// The problem.
        what: String,
    },
}

impl ProxyError {
    /// Returns whether the error's text contains `words`.
    pub(crate) fn says(&self, words: &str) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(words))
    }
}
