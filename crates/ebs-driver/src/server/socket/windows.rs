//! AF_UNIX sockets on Windows, which std and tokio lack and `socket2` supports in blocking mode only. A connected
//! socket serves as a tokio TCP stream, whose reads and writes do not depend on the address family. Untested.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};

use super::{BindError, io_error};
use crate::server::Endpoint;

const BACKLOG: i32 = 128;
/// The step that fails on old versions of Windows, and on Wine.
const CREATE: &str = "create a local socket (AF_UNIX, which Windows Server 2019 and later have)";
/// The maximum number of accepted connections that the server has not yet received.
const WAITING: usize = 16;

/// Receives accepted connections. After the receiver is dropped, the accepting thread ends at the next connection.
pub(in crate::server) type Listener = mpsc::Receiver<io::Result<std::net::TcpStream>>;

pub(in crate::server) fn incoming(listener: Listener) -> impl Stream<Item = io::Result<TcpStream>> {
    ReceiverStream::new(listener).map(|stream| TcpStream::from_std(stream?))
}

/// The driver's socket file. Dropping this removes the file.
#[derive(Debug)]
pub(in crate::server) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::warn!(path = %self.0.display(), %error, "failed to remove the socket file");
        }
    }
}

/// Creates the socket. Windows has no permission bits: the file inherits the access rights of its directory.
pub(super) fn bind(endpoint: &Endpoint, path: &Path, _mode: u32) -> Result<(Listener, SocketFile), BindError> {
    let failed = |step| move |cause| io_error(endpoint, step, cause);
    let directory = path.parent().unwrap_or(path);
    if !directory.is_dir() {
        return Err(BindError::NoDirectory { directory: directory.to_owned() });
    }
    let address = SockAddr::unix(path).map_err(failed("use the path as an address"))?;
    // Create the socket before removing any file, so that nothing is removed on a system without such sockets.
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(failed(CREATE))?;
    remove_stale(endpoint, path, &address)?;
    socket.bind(&address).map_err(failed("bind"))?;
    let file = SocketFile(path.to_owned());
    socket.listen(BACKLOG).map_err(failed("listen"))?;
    let (accepted, connections) = mpsc::channel(WAITING);
    let accept = move || accept_all(&socket, &accepted);
    thread::Builder::new().name("accept".to_owned()).spawn(accept).map_err(failed("start a thread"))?;
    Ok((connections, file))
}

/// Removes the file of a previous process: any file without a listener, because Windows does not mark socket files.
fn remove_stale(endpoint: &Endpoint, path: &Path, address: &SockAddr) -> Result<(), BindError> {
    let metadata = match std::fs::symlink_metadata(path) {
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        metadata => metadata.map_err(|cause| io_error(endpoint, "examine the socket file", cause))?,
    };
    if metadata.is_dir() {
        return Err(BindError::NotASocket { socket: path.to_owned() });
    }
    let connected = Socket::new(Domain::UNIX, Type::STREAM, None).and_then(|socket| socket.connect(address));
    if connected.is_ok() {
        return Err(BindError::Live { socket: path.to_owned() });
    }
    tracing::info!(path = %path.display(), "removing the socket file of a previous process");
    std::fs::remove_file(path).map_err(|cause| io_error(endpoint, "remove the stale socket file", cause))
}

/// Accepts connections, and sends each one, or its error, to `accepted`. Ends after a permanent error of the socket.
fn accept_all(socket: &Socket, accepted: &mpsc::Sender<io::Result<std::net::TcpStream>>) {
    loop {
        let connection = socket.accept().and_then(|(connection, _)| non_blocking(connection));
        let is_last = connection.as_ref().is_err_and(|error| {
            !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
        });
        if accepted.blocking_send(connection).is_err() || is_last {
            return;
        }
    }
}

fn non_blocking(socket: Socket) -> io::Result<std::net::TcpStream> {
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Connects. Blocks a thread while the server's queue is full. If the caller's timeout expires, the thread remains
/// blocked.
pub(in crate::server) async fn connect(path: &Path) -> io::Result<TcpStream> {
    let path = path.to_owned();
    let connect = move || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        non_blocking(socket)
    };
    TcpStream::from_std(tokio::task::spawn_blocking(connect).await.map_err(io::Error::other)??)
}
