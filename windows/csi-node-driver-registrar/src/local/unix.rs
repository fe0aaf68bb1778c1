//! Local sockets on Unix.

use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::fs::Mode;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};

use super::{BACKLOG, Failed};
use crate::stream::Stream;

/// Access for this user only: the mode that a socket gets with a umask of 0077.
const PRIVATE: u32 = 0o700;

#[derive(Debug)]
pub(crate) struct Listener(UnixListener);

impl Listener {
    /// Binds the socket and makes it private. Sets the mode before the socket has a name, because all threads share the
    /// umask, which must not change. A umask can only remove more bits. No client can connect before `listen`.
    pub(super) fn bind(path: &Path) -> Result<Self, Failed> {
        let create = || {
            let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
            socket.set_nonblocking(true)?;
            rustix::fs::fchmod(&socket, Mode::from_raw_mode(PRIVATE))?;
            Ok(socket)
        };
        let socket = create().map_err(|cause| ("create a private socket", cause))?;
        let address = SockAddr::unix(path).map_err(|cause| ("use the path as an address", cause))?;
        socket.bind(&address).map_err(|cause| ("bind", cause))?;
        let set_mode = || {
            let metadata = std::fs::symlink_metadata(path)?;
            if metadata.permissions().mode() & 0o777 != PRIVATE {
                std::fs::set_permissions(path, PermissionsExt::from_mode(PRIVATE))?;
            }
            Ok(())
        };
        set_mode().map_err(|cause| ("set the mode of the socket file", cause))?;
        socket.listen(BACKLOG).map_err(|cause| ("listen", cause))?;
        UnixListener::from_std(socket.into()).map(Self).map_err(|cause| ("register the socket with the runtime", cause))
    }

    pub(super) async fn accept(&mut self) -> io::Result<Stream> {
        let (stream, _) = self.0.accept().await?;
        Ok(Box::new(stream))
    }
}

pub(super) async fn connect(path: &Path) -> io::Result<Stream> {
    Ok(Box::new(UnixStream::connect(path).await?))
}
