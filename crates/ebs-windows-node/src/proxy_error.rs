//! What a call of csi-proxy can end with.

use std::time::Duration;

use tonic::Status;

/// A call of the proxy that failed.
#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    /// The proxy's own words.
    #[error("csi-proxy refused {call}: {message}")]
    Refused {
        /// The method.
        call: &'static str,
        /// All that it said: it has no codes.
        message: String,
    },
    /// The proxy does not have the call.
    #[error("csi-proxy does not have the call {call}: {message}")]
    Unsupported {
        /// The method.
        call: &'static str,
        /// All that it answered.
        message: String,
    },
    /// The proxy was busy and did nothing.
    #[error("csi-proxy was too busy for {call}: {message}")]
    Busy {
        /// The method.
        call: &'static str,
        /// With what.
        message: String,
    },
    /// It could not be reached, or the connection broke: what became of the call is not known.
    #[error("csi-proxy did not answer {call}")]
    Unreachable {
        /// The method.
        call: &'static str,
        /// Why.
        #[source]
        status: Box<Status>,
    },
    /// No answer in time. The call goes on there.
    #[error("csi-proxy has not answered {call} within {within:?}")]
    Late {
        /// The method.
        call: &'static str,
        /// How long was waited.
        within: Duration,
    },
    /// An answer that cannot be.
    #[error("csi-proxy answered {call} with {what}")]
    Odd {
        /// The method.
        call: &'static str,
        /// What is wrong with it.
        what: String,
    },
}

impl ProxyError {
    /// The words of a refusal.
    pub(crate) fn says(&self, words: &str) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(words))
    }
}
