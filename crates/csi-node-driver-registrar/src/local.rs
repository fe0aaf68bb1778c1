//! Local sockets: a private listener at a path, and connections to one.

#[cfg(unix)]
#[path = "local/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "local/windows.rs"]
mod system;

use std::io;
use std::net::SocketAddr;
use std::path::Path;

use tokio::net::{TcpListener, TcpStream};

use crate::address::Address;
use crate::stream::Stream;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// A step that failed, in words that follow "cannot".
pub(crate) type Failed = (&'static str, io::Error);

/// Listens at a place; the file of a local socket is not its to remove.
#[derive(Debug)]
pub(crate) enum Listener {
    Local(system::Listener),
    Tcp(TcpListener),
}

impl Listener {
    /// A new local socket at `path`, where nothing is: for this user alone from its first moment. Must be called
    /// in a runtime.
    ///
    /// # Errors
    /// The step that failed.
    pub(crate) fn local(path: &Path) -> Result<Self, Failed> {
        system::Listener::bind(path).map(Self::Local)
    }

    /// TCP on loopback; gives the address with its real port.
    ///
    /// # Errors
    /// The step that failed.
    pub(crate) async fn tcp(address: SocketAddr) -> Result<(Self, SocketAddr), Failed> {
        let listener = TcpListener::bind(address).await.map_err(|cause| ("listen", cause))?;
        let real = listener.local_addr().map_err(|cause| ("ask for the port", cause))?;
        Ok((Self::Tcp(listener), real))
    }

    /// The next connection.
    ///
    /// Cancellation: no connection is lost.
    ///
    /// # Errors
    /// Of one client, or of the listener: try again after a pause.
    pub(crate) async fn accept(&mut self) -> io::Result<Stream> {
        match self {
            Self::Local(listener) => listener.accept().await,
            Self::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                Ok(Box::new(stream))
            }
        }
    }
}

/// A connection to whoever listens at `address`.
///
/// # Errors
/// As the system says.
pub(crate) async fn connect(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Local(path) => system::connect(path).await,
        Address::Tcp(address) => Ok(Box::new(TcpStream::connect(address).await?)),
    }
}

/// A client left before it was accepted; the next one may be well.
pub(crate) fn is_of_one_client(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}
