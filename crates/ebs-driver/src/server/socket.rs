//! A socket that is private from its first moment, and only one driver on it (`decisions.md` D-40).

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::net::{TcpListener, UnixListener};

use super::Endpoint;

/// Connections that wait to be accepted.
const BACKLOG: i32 = 128;

/// The endpoint could not be taken. Nothing of another process was touched.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another driver holds the lock file.
    #[error("another driver is serving on {} (it holds {}): stop it or give this one another --endpoint", socket.display(), lock.display())]
    Locked { socket: PathBuf, lock: PathBuf },
    /// Somebody answers on the socket.
    #[error("another process is listening on {}: stop it or give this driver another --endpoint", socket.display())]
    Live { socket: PathBuf },
    /// The path is taken by something that is no socket.
    #[error("{} exists and is not a socket: remove it or give another --endpoint", socket.display())]
    NotASocket { socket: PathBuf },
    #[error("the directory of the socket, {}, does not exist: create it, or mount it into the container, before the driver starts", directory.display())]
    NoDirectory { directory: PathBuf },
    #[error("the driver cannot {step} for {endpoint}")]
    Io {
        endpoint: Endpoint,
        step: &'static str,
        #[source]
        cause: io::Error,
    },
}

/// An endpoint that is being listened on.
#[derive(Debug)]
pub struct Bound {
    pub(super) listener: Listener,
    pub(super) endpoint: Endpoint,
    pub(super) file: Option<SocketFile>,
}

impl Bound {
    /// Where it listens; a TCP port of 0 has become the real one.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }
}

#[derive(Debug)]
pub(super) enum Listener {
    Unix(UnixListener),
    Tcp(TcpListener),
}

/// Our socket file; removed when dropped, if it is still ours. The lock is given up after that.
#[derive(Debug)]
pub(super) struct SocketFile {
    path: PathBuf,
    identity: (u64, u64),
    _lock: File,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|now| now == self.identity)
            && let Err(error) = std::fs::remove_file(&self.path)
        {
            tracing::warn!(path = %self.path.display(), %error, "the socket file could not be removed");
        }
    }
}

/// Listens on the endpoint; a unix socket gets exactly the permission bits `mode`. Must be called in a runtime.
///
/// A socket file that nobody listens on is replaced. A lock file beside the socket keeps a second driver away; it
/// stays when the driver ends, empty and without meaning.
///
/// # Errors
/// [`BindError`].
pub fn bind(endpoint: &Endpoint, mode: u32) -> Result<Bound, BindError> {
    let (listener, file, endpoint) = match endpoint {
        Endpoint::Unix(path) => {
            let lock = lock(path)?;
            remove_stale(path)?;
            let socket = listen_private(path, mode).map_err(|(step, cause)| io_error(endpoint, step, cause))?;
            let identity = identity(path).map_err(|cause| io_error(endpoint, "look at the socket file", cause))?;
            let file = SocketFile { path: path.clone(), identity, _lock: lock };
            let listener = UnixListener::from_std(socket.into());
            (listener.map(Listener::Unix), Some(file), endpoint.clone())
        }
        Endpoint::Tcp(address) => {
            let listener = std::net::TcpListener::bind(address).map_err(|cause| io_error(endpoint, "listen", cause))?;
            let real = listener.local_addr().map_or_else(|_| endpoint.clone(), Endpoint::Tcp);
            let listener = listener.set_nonblocking(true).and_then(|()| TcpListener::from_std(listener));
            (listener.map(Listener::Tcp), None, real)
        }
    };
    let listener = listener.map_err(|cause| io_error(&endpoint, "watch the socket", cause))?;
    Ok(Bound { listener, endpoint, file })
}

fn io_error(endpoint: &Endpoint, step: &'static str, cause: io::Error) -> BindError {
    BindError::Io { endpoint: endpoint.clone(), step, cause }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    let metadata = std::fs::symlink_metadata(path)?;
    Ok((metadata.dev(), metadata.ino()))
}

/// Takes the lock file beside the socket.
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

/// Removes a socket that a former process left; anything else stays.
fn remove_stale(path: &Path) -> Result<(), BindError> {
    let failed = |step, cause| io_error(&Endpoint::Unix(path.to_owned()), step, cause);
    let metadata = match std::fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(cause) => return Err(failed("look at the socket file", cause)),
    };
    if !metadata.file_type().is_socket() {
        return Err(BindError::NotASocket { socket: path.to_owned() });
    }
    match try_connect(path) {
        Err(cause) if cause.kind() == io::ErrorKind::ConnectionRefused => {
            tracing::info!(path = %path.display(), "removing the socket file of a former process");
            std::fs::remove_file(path).map_err(|cause| failed("remove the stale socket file", cause))
        }
        Err(cause) if cause.kind() == io::ErrorKind::NotFound => Ok(()),
        // A full queue of a listener that is busy is a listener too.
        Ok(()) => Err(BindError::Live { socket: path.to_owned() }),
        Err(cause) if cause.kind() == io::ErrorKind::WouldBlock => Err(BindError::Live { socket: path.to_owned() }),
        Err(cause) => Err(failed("find out whether somebody listens on the socket", cause)),
    }
}

fn try_connect(path: &Path) -> io::Result<()> {
    let socket = Socket::new(Domain::UNIX, Type::STREAM, None)?;
    socket.set_nonblocking(true)?;
    socket.connect(&SockAddr::unix(path)?)
}

/// Creates the socket with its mode set before it has a name: it is never open to anybody it should not be open to.
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
    // The process's umask may have taken bits away, never added any.
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
