//! Who is at the other end of a connection, as far as the machine tells.

use serde::Serialize;

/// The process that has opened a pipe. What cannot be found out is left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Peer {
    /// Its process id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Its session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session: Option<u32>,
    /// The path of its program.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// The user that it runs as, by the process's own token.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sid: Option<String>,
    /// The job container that it runs in, if it is in one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
}
