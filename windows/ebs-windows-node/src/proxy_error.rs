//! Errors of calls to csi-proxy.

use std::time::Duration;

use tonic::Status;

#[derive(Debug, thiserror::Error)]
pub enum ProxyError {
    #[error("call csi-proxy's {call}: {message}")]
    Refused { call: &'static str, message: String },
    #[error("call csi-proxy's {call}: unsupported: {message}")]
    Unsupported { call: &'static str, message: String },
    #[error("call csi-proxy's {call}: busy: {message}")]
    Busy { call: &'static str, message: String },
    #[error("call csi-proxy's {call}")]
    Unreachable {
        call: &'static str,
        #[source]
        status: Box<Status>,
    },
    #[error("call csi-proxy's {call}: no reply within {within:?}")]
    Late { call: &'static str, within: Duration },
    #[error("call csi-proxy's {call}: unexpected reply: {what}")]
    Odd { call: &'static str, what: String },
}

impl ProxyError {
    pub(crate) fn says(&self, words: &str) -> bool {
        matches!(self, Self::Refused { message, .. } if message.contains(words))
    }
}
