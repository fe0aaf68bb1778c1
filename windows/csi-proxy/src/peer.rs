//! The client of a connection, as far as the machine identifies it.

use serde::Serialize;

/// The process that has opened a pipe. Unknown properties are missing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Peer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u32>,
    /// The path of its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user of the process, from its own token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
}
