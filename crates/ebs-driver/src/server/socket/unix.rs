use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{UnixListener, UnixStream};
use tokio_stream::Stream;
use tokio_stream::wrappers::UnixListenerStream;

use super::{BindError, io_error};
use crate::server::Endpoint;

pub(in crate::server) type Listener = UnixListener;

const BACKLOG: i32 = 128;

pub(in crate::server) fn incoming(listener: Listener) -> impl Stream<Item = io::Result<UnixStream>> {
    UnixListenerStream::new(listener)
}

pub(in crate::server) async fn connect(path: &Path) -> io::Result<UnixStream> {
    UnixStream::connect(path).await
}

/// The driver's socket file. When dropped, removes the file if it still belongs to this process, then unlocks.
#[derive(Debug)]
pub(in crate::server) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    _lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "failed to remove the socket file");
        }
    }
}

/// Creates the socket. Takes the lock first, so that a second driver fails before it changes anything.
pub(super) fn bind(endpoint: &Endpoint, path: &Path, mode: u32) -> Result<(Listener, SocketFile), BindError> {
    let lock = lock(path)?;
    remove_stale(path)?;
    let socket = listen_private(path, mode).map_err(|(step, cause)| io_error(endpoint, step, cause))?;
    let identity = identity(path).map_err(|cause| io_error(endpoint, "examine the socket file", cause))?;
    let file = SocketFile { path: path.to_owned(), identity, _lock: lock };
    let listener = UnixListener::from_std(socket.into());
    Ok((listener.map_err(|cause| io_error(endpoint, "register the socket with the runtime", cause))?, file))
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

fn lock(socket: &Path) -> Result<File, BindError> {
    let mut name = socket.as_os_str().to_owned();
    name.push(".lock");
    let path = PathBuf::from(name);
    let failed = |step, cause: io::Error| match cause.kind() {
        io::ErrorKind::NotFound => {
            BindError::NoDirectory { directory: socket.parent().unwrap_or(Path::new("/")).to_owned() }
        }
        _ => io_error(&Endpoint::Unix(socket.to_owned()), step, cause),
    };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR)
        .map_err(|cause| failed("open the lock file beside the socket", cause.into()))?;
    let file = File::from(file);
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(BindError::Locked { socket: socket.to_owned(), lock: path }),
        Err(TryLockError::Error(cause)) => Err(failed("lock the lock file beside the socket", cause)),
    }
}

/// Removes the socket file of a previous process, and refuses any other file.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |step, cause| io_error(&Endpoint::Unix(path.to_owned()), step, cause);
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed("examine the socket file", cause)),
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NotASocket { socket: path.to_owned() });
    }
    match try_connect(path) {
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "removing the socket file of a previous process");
            std::fs::remove_file(path).map_err(|cause| failed("remove the stale socket file", cause))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        // A full connection queue (`WouldBlock`) also proves that a process is listening.
        Ok(()) => Err(BindError::Live { socket: path.to_owned() }),
        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Err(BindError::Live { socket: path.to_owned() }),
        Err(cause) => Err(failed("check whether a process listens on the socket", cause)),
    }
}

fn try_connect(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

/// Creates the socket and sets its mode before the bind, so that the socket is never open to other users.
fn listen_private(path: &Path, mode: u32) -> Result<Socket, (&'static str, io::Error)> {
    let create = || {
        let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.set_nonblocking(true)?;
        rustix::fs::fchmod(&socket, Mode::from_raw_mode(mode))?;
        Ok(socket)
    };
    let socket = create().map_err(|cause| ("create a private socket", cause))?;
    let address = SockAddr::unix(path).map_err(|cause| ("use the path as an address", cause))?;
    socket.bind(&address).map_err(|cause| ("bind", cause))?;
    // The umask of the process may have removed bits but never adds any, so the chmod can only restore requested bits.
    let widen = || {
        let metadata = std::fs::symlink_metadata(path)?;
        if metadata.permissions().mode() & 0o777 != mode {
            std::fs::set_permissions(path, PermissionsExt::from_mode(mode))?;
        }
        io::Result::Ok(())
    };
    widen().map_err(|cause| ("set the mode of the socket file", cause))?;
    socket.listen(BACKLOG).map_err(|cause| ("listen", cause))?;
    Ok(socket)
}
