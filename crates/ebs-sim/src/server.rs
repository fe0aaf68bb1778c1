//! A running simulator: its three listeners, its engine, and how they end.

use std::collections::BTreeMap;

use crate::config::ServerConfig;

/// Why a simulator did not start or stop.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// Not yet in its final form.
    #[error("{0}")]
    Refused(String),
}

/// A running simulator; [`Server::shutdown`] ends it.
#[derive(Debug)]
pub struct Server {
    env: BTreeMap<String, String>,
}

impl Server {
    /// Starts it: all listeners are open when this returns.
    ///
    /// # Errors
    /// [`ServerError`] names what could not be opened, written or set up.
    pub async fn start(config: ServerConfig) -> Result<Self, ServerError> {
        Err(ServerError::Refused(format!("cannot start in {} yet", config.state_dir.display())))
    }

    /// What a client needs to reach it, the content of the env file.
    pub fn env(&self) -> BTreeMap<String, String> {
        self.env.clone()
    }

    /// Closes the listeners, removes devices and links, and writes what is left to write. Bounded in time.
    ///
    /// # Errors
    /// [`ServerError`] says what was left behind.
    pub async fn shutdown(self) -> Result<(), ServerError> {
        Ok(())
    }
}
