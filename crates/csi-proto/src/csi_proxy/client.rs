//! Connects a client to the newest version of a group that the node's csi-proxy serves.

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::{Instant, sleep, timeout_at};
use tonic::transport::{Channel, Endpoint, Uri};

use crate::csi_proxy::served::{Group, pipe_name};
use crate::csi_proxy::version::Version;

/// Windows' error for a pipe that does not exist: the proxy does not serve the version, or is not running.
const FILE_NOT_FOUND: i32 = 2;
/// Windows' error for a pipe without a free instance.
const PIPE_BUSY: i32 = 231;
const BUSY_PAUSE: Duration = Duration::from_millis(20);
/// How long a pipe may be busy, and how long connecting to the proxy may take.
const DIAL_LIMIT: Duration = Duration::from_secs(10);

/// Opens pipes. The product opens Windows pipes, and tests open others.
pub trait Dial: Clone + Send + Sync + 'static {
    type Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static;

    /// Tries once to open the pipe. Fails with Windows' error, whose number is in `raw_os_error`.
    fn dial(&self, pipe: &str) -> impl Future<Output = io::Result<Self::Stream>> + Send;
}

/// The version that was found, and a channel to the proxy.
#[derive(Debug, Clone)]
pub struct Found {
    /// The newest of the requested versions that the proxy serves.
    pub version: Version,
    /// The channel for a client of this version. It reconnects by itself after its connection has ended.
    pub channel: Channel,
}

/// Why there is no channel to a group.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error(
        "csi-proxy serves no version of group {group} that this program supports: neither pipe {newest} nor one of an older \
         version exists; check that csi-proxy is installed and running on this node, and is recent enough"
    )]
    NotServed { group: Group, newest: String },
    /// The pipe exists but cannot be opened. The client does not try an older version, because that would hide the
    /// cause.
    #[error("open {pipe}")]
    Open { pipe: String, source: io::Error },
    #[error("speak HTTP/2 over {pipe}")]
    Handshake { pipe: String, source: tonic::transport::Error },
}

/// Connects to the newest of `versions` that the proxy serves, whatever their order. The channel uses the connection
/// that this search opened. One connection serves all calls of a process: clone the channel.
///
/// Cancellation closes the connection. A pipe that is busy for 10 s is an error. A proxy that accepts the connection
/// but never replies is noticed only at the first call, so set a deadline for each call. Errors:
/// [`ConnectError::NotServed`] if no version has a pipe (error 2). Any other error of a pipe ends the search.
pub async fn connect<D: Dial>(dial: &D, group: Group, versions: &[Version]) -> Result<Found, ConnectError> {
    let mut versions = versions.to_vec();
    versions.sort_unstable_by(|one, other| other.cmp(one));
    for version in &versions {
        let pipe = pipe_name(group, *version);
        match open(dial, &pipe).await {
            Ok(stream) => {
                let channel = channel(dial, &pipe, stream).await?;
                return Ok(Found { version: *version, channel });
            }
            Err(error) if error.raw_os_error() == Some(FILE_NOT_FOUND) => {}
            Err(source) => return Err(ConnectError::Open { pipe, source }),
        }
    }
    let newest = versions.first().map_or_else(String::new, |version| pipe_name(group, *version));
    Err(ConnectError::NotServed { group, newest })
}

async fn open<D: Dial>(dial: &D, pipe: &str) -> io::Result<D::Stream> {
    let end = Instant::now() + DIAL_LIMIT;
    loop {
        let Ok(opened) = timeout_at(end, dial.dial(pipe)).await else {
            return Err(io::Error::from(io::ErrorKind::TimedOut));
        };
        match opened {
            Err(error) if error.raw_os_error() == Some(PIPE_BUSY) && Instant::now() < end => sleep(BUSY_PAUSE).await,
            other => return other,
        }
    }
}

/// Returns a channel that uses `first` as its first connection, and opens the pipe again for each later one.
async fn channel<D: Dial>(dial: &D, pipe: &str, first: D::Stream) -> Result<Channel, ConnectError> {
    let first = Arc::new(Mutex::new(Some(first)));
    let connector = {
        let (dial, pipe) = (dial.clone(), pipe.to_owned());
        tower::service_fn(move |_: Uri| {
            let (dial, pipe) = (dial.clone(), pipe.clone());
            let first = first.lock().map_or(None, |mut first| first.take());
            async move {
                match first {
                    Some(stream) => Ok::<_, io::Error>(TokioIo::new(stream)),
                    None => open(&dial, &pipe).await.map(TokioIo::new),
                }
            }
        })
    };
    // An endpoint requires an authority, although the name of the pipe identifies the server.
    let endpoint = Endpoint::from_static("http://localhost").connect_timeout(DIAL_LIMIT);
    let connected = endpoint.connect_with_connector(connector).await;
    connected.map_err(|source| ConnectError::Handshake { pipe: pipe.to_owned(), source })
}

#[cfg(test)]
mod tests;
