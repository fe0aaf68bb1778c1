//! What several test binaries need: a running simulator, requests written by hand, child processes.

pub(crate) mod child;
pub(crate) mod process;
pub(crate) mod request;

use ebs_sim::{Server, ServerConfig};
use std::time::Duration;

/// A simulator in a directory of its own.
pub(crate) struct Sim {
    pub(crate) server: Server,
    _state: tempfile::TempDir,
}

impl Sim {
    /// Instant, without devices.
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

/// Asks again and again until the answer is there; panics after two minutes.
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

/// The text between a start tag and its end tag, first occurrence.
pub(crate) fn element<'a>(xml: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    Some(rest.split_once(&format!("</{name}>"))?.0)
}
