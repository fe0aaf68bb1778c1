//! The properties of a connection's client, as far as the machine reports them.

use serde::Serialize;

/// The process that has opened a pipe. A property that is not known is missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Peer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u32>,
    /// The path of the client's program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user of the process, from the token of the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
}
