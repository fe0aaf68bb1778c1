//! Local sockets: a private listener at a path, and client connections.

#[cfg(unix)]
#[path = "local/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "local/windows.rs"]
mod system;

use std::io;
use std::net::SocketAddr;
use std::path::Path;

pub(crate) use component_base::http::is_of_one_client;
use tokio::net::{TcpListener, TcpStream};

use crate::address::Address;
use crate::stream::Stream;

const BACKLOG: i32 = 128;

/// The step that failed, as a text that follows "cannot", and its error.
pub(crate) type Failed = (&'static str, io::Error);

/// A listener. It does not remove the file of its local socket.
#[derive(Debug)]
pub(crate) enum Listener {
    Local(system::Listener),
    Tcp(TcpListener),
}

impl Listener {
    /// Binds a socket that only this user can access from the start. Must be called in a runtime.
    pub(crate) fn local(path: &Path) -> Result<Self, Failed> {
        system::Listener::bind(path).map(Self::Local)
    }

    /// Listens on loopback with TCP. Returns the address with its actual port.
    pub(crate) async fn tcp(address: SocketAddr) -> Result<(Self, SocketAddr), Failed> {
        let listener = TcpListener::bind(address).await.map_err(|cause| ("listen", cause))?;
        let real = listener.local_addr().map_err(|cause| ("get the port", cause))?;
        Ok((Self::Tcp(listener), real))
    }

    /// Accepts the next connection. After a listener error, the caller must pause before it retries.
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

pub(crate) async fn connect(address: &Address) -> io::Result<Stream> {
    match address {
        Address::Local(path) => system::connect(path).await,
        Address::Tcp(address) => Ok(Box::new(TcpStream::connect(address).await?)),
    }
}
