//! Shared parts of the tests: a running simulator, handwritten requests, child processes.

pub(crate) mod child;
pub(crate) mod process;
pub(crate) mod request;

use ebs_sim::{Server, ServerConfig};
use std::time::Duration;

pub(crate) struct Sim {
    pub(crate) server: Server,
    _state: tempfile::TempDir,
}

impl Sim {
    /// Starts it with instant timing and without devices.
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

/// Polls until a result is available. Panics after two minutes.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let asked = async {
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(120), asked)
        .await
        .unwrap_or_else(|_| panic!("{what}: not within two minutes"))
}

pub(crate) fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}
