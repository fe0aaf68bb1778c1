//! Errors of csi-proxy calls.

use std::time::Duration;

use tonic::Status;

/// A failed call of csi-proxy.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The proxy returned an error.
    #[error("csi-proxy refused {call}: {message}")]
    Refused {
        /// The method.
        call: &'static str,
        /// The whole text; there are no error codes.
        message: String,
    },
    /// The proxy does not have the call.
    #[error("csi-proxy does not have the call {call}: {message}")]
    Unsupported {
        /// The method.
        call: &'static str,
        /// The whole text.
        message: String,
    },
    /// The proxy was busy and did nothing.
    #[error("csi-proxy was too busy for {call}: {message}")]
    Busy {
        /// The method.
        call: &'static str,
        /// Its text.
        message: String,
    },
    /// The proxy was not reachable, or the connection broke. The outcome of the call is unknown.
    #[error("csi-proxy did not answer {call}")]
    Unreachable {
        /// The method.
        call: &'static str,
        /// The cause.
        #[source]
        status: Box<Status>,
    },
    /// The reply did not arrive in time. The call continues in the proxy.
    #[error("csi-proxy has not answered {call} within {within:?}")]
    Late {
        /// The method.
        call: &'static str,
        /// How long the driver waited.
        within: Duration,
    },
    /// An invalid reply.
    #[error("csi-proxy answered {call} with {what}")]
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
