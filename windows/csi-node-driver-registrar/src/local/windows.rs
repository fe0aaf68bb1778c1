//! AF_UNIX on Windows. Neither std nor tokio supports it, and `socket2` blocks. tokio can treat a connected socket as a
//! TCP stream, because reads and writes do not depend on the address family. Only `peer_addr` fails.

use std::io;
use std::path::{Path, PathBuf};
use std::thread;

use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::{BACKLOG, Failed, is_of_one_client};
use crate::stream::Stream;

/// The step that fails if Windows is too old, and under Wine.
const CREATE: &str = "create a local socket (AF_UNIX, which Windows Server 2019 and later have)";
const WAITING: usize = 16;

/// A listener whose thread accepts connections. When the listener has been dropped, the thread ends after it accepts
/// the next connection. If the socket file is gone, no connection arrives, so the thread stays until the process ends.
#[derive(Debug)]
pub(crate) struct Listener(mpsc::Receiver<io::Result<std::net::TcpStream>>);

impl Listener {
    /// Binds the socket. The file inherits the permissions of its directory.
    pub(super) fn bind(path: &Path) -> Result<Self, Failed> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None).map_err(|cause| (CREATE, cause))?;
        let address = SockAddr::unix(path).map_err(|cause| ("use the path as an address", cause))?;
        socket.bind(&address).map_err(|cause| ("bind", cause))?;
        socket.listen(BACKLOG).map_err(|cause| ("listen", cause))?;
        let (accepted, connections) = mpsc::channel(WAITING);
        thread::Builder::new()
            .name("accept".to_owned())
            .spawn(move || accept_all(&socket, &accepted))
            .map_err(|cause| ("start a thread", cause))?;
        Ok(Self(connections))
    }

    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        let accepted = self.0.recv().await;
        let stream = accepted.ok_or_else(|| io::Error::other("the thread that accepts connections has stopped"))??;
        Ok(Box::new(TcpStream::from_std(stream)?))
    }
}

/// Accepts connections, and forwards them and errors. Ends after an error that does not concern a single client,
/// because the socket does not recover from it.
fn accept_all(socket: &Socket, accepted: &mpsc::Sender<io::Result<std::net::TcpStream>>) {
    loop {
        let connection = socket.accept().and_then(|(connection, _)| non_blocking(connection));
        let is_last = connection.as_ref().is_err_and(|error| !is_of_one_client(error));
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
pub(super) async fn connect(path: &Path) -> io::Result<Stream> {
    let path: PathBuf = path.to_owned();
    let connect = move || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        non_blocking(socket)
    };
    let stream = tokio::task::spawn_blocking(connect).await.map_err(io::Error::other)??;
    Ok(Box::new(TcpStream::from_std(stream)?))
}
