//! What asks a process to end: signals on Unix, what the console and the end of a container send on Windows.

use std::io;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
use unix::Listeners;
#[cfg(windows)]
use windows::Listeners;

/// The requests to end, listened to from the moment this exists: none of them ends the process by itself any more.
///
/// On Unix that holds until the process ends. On Windows it holds as long as one of these lives; after a closed console and the end of
/// the machine or container, Windows itself ends the process some seconds later, and nothing here can make that longer.
#[derive(Debug)]
pub struct Signals(Listeners);

impl Signals {
    /// Listens from now on. Must be called in a runtime.
    ///
    /// # Errors
    /// As the system says.
    pub fn listen() -> io::Result<Self> {
        Listeners::new().map(Self)
    }

    /// Ends with the next request to end, one that came since [`Self::listen`] included; gives its name. Equal ones that come before
    /// anybody looks are one.
    pub async fn next(&mut self) -> &'static str {
        self.0.next().await
    }
}
