//! Common parts of the tests: a running simulator, handwritten requests, child processes.

pub(crate) mod child;
pub(crate) mod process;
pub(crate) mod request;

use ebs_sim::{Server, ServerConfig};

pub(crate) struct Sim {
    pub(crate) server: Server,
    _state: tempfile::TempDir,
}

impl Sim {
    /// Starts a simulator with instant timing and without devices.
    pub(crate) async fn start() -> Self {
        Self::start_with(|_| ()).await
    }

    pub(crate) async fn start_with(change: impl FnOnce(&mut ServerConfig)) -> Self {
        let state = tempfile::tempdir().unwrap();
        let mut config = ServerConfig::new(state.path());
        change(&mut config);
        Self { server: Server::start(config).await.unwrap(), _state: state }
    }

    pub(crate) fn env(&self, name: &str) -> String {
        self.server.env().remove(name).unwrap_or_else(|| panic!("{name} is not in the environment"))
    }
}

pub(crate) fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}
