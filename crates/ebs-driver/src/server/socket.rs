//! A socket that is private from its creation and that only one driver at a time can use.

#[cfg(unix)]
#[path = "socket/unix.rs"]
mod system;
#[cfg(windows)]
#[path = "socket/windows.rs"]
mod system;

use std::io;
use std::path::PathBuf;

use tokio::net::TcpListener;

use super::Endpoint;

pub(super) use system::{SocketFile, connect, incoming};

/// The driver could not listen on the endpoint. It has changed no file of another process.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    #[error("another driver is serving on {} (it holds {}); stop that driver, or use another --endpoint", socket.display(), lock.display())]
    Locked { socket: PathBuf, lock: PathBuf },
    #[error("another process is listening on {}; stop that process, or use another --endpoint", socket.display())]
    Live { socket: PathBuf },
    #[error("{} exists and is not a socket; remove it, or use another --endpoint", socket.display())]
    NotASocket { socket: PathBuf },
    #[error("the directory of the socket, {}, does not exist; create it, or mount it into the container, before the driver starts", directory.display())]
    NoDirectory { directory: PathBuf },
    #[error("{step} for {endpoint}")]
    Io {
        endpoint: Endpoint,
        step: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// An endpoint on which the driver listens, with its listener.
#[derive(Debug)]
pub struct Bound {
    pub(super) listener: Listener,
    pub(super) endpoint: Endpoint,
    pub(super) file: Option<SocketFile>,
}

impl Bound {
    /// Returns the endpoint, with the actual port in place of a TCP port of 0.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

#[derive(Debug)]
pub(super) enum Listener {
    Unix(system::Listener),
    Tcp(TcpListener),
}

/// Listens on the endpoint. A unix socket gets exactly the permission bits `mode`. Must be called in a Tokio runtime.
///
/// Replaces a socket file without a listener. A permanent lock file next to the socket excludes a second driver.
pub fn bind(endpoint: &Endpoint, mode: u32) -> Result<Bound, BindError> {
    let (listener, file, endpoint) = match endpoint {
        Endpoint::Unix(path) => {
            let (listener, file) = system::bind(endpoint, path, mode)?;
            (Ok(Listener::Unix(listener)), Some(file), endpoint.clone())
        }
        Endpoint::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address).map_err(|cause| io_error(endpoint, "listen", cause))?;
            let real = listener.local_addr().map_or_else(|_| endpoint.clone(), Endpoint::Tcp);
            let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
            (listener.map(Listener::Tcp), None, real)
        }
    };
    let listener = listener.map_err(|cause| io_error(&endpoint, "register the socket with the runtime", cause))?;
    Ok(Bound { listener, endpoint, file })
}

fn io_error(endpoint: &Endpoint, step: &'static str, cause: io::Error) -> BindError {
    BindError::Io { endpoint: endpoint.clone(), step, cause }
}
