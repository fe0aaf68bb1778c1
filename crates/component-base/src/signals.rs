//! Requests to stop a process: signals on Unix, console and shutdown events on Windows.

use std::io;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix::Listeners;
#[cfg(windows)]
use windows::Listeners;

/// Receives requests to stop. As long as it exists, they do not end the process by themselves.
///
/// On Unix this remains so until the process ends. On Windows it applies while a `Signals` exists. After a closed
/// console or a shutdown of the machine or container, Windows ends the process some seconds later, and the process
/// cannot extend that time.
#[derive(Debug)]
pub struct Signals(Listeners);

impl Signals {
    /// Starts to listen. Must be called in a runtime.
    ///
    /// # Errors
    /// The system rejects the handler.
    pub fn listen() -> io::Result<Self> {
        Listeners::new().map(Self)
    }

    /// Waits for the next request since [`Self::listen`] and returns its name. Equal requests that arrive before this
    /// call count as one.
    pub async fn next(&mut self) -> &'static str {
        self.0.next().await
    }
}
