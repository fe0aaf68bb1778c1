//! Named pipes that always have a waiting instance.

use std::io;
use std::os::windows::io::AsRawHandle;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::Stream;
use tokio::net::windows::named_pipe::{NamedPipeServer, PipeMode, ServerOptions};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::JoinSet;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::client::{client_of, own_user};
use super::security::Security;
use crate::peer::Peer;
use crate::proxy::Transport;

/// `ERROR_NO_DATA`: the client disconnected before it was accepted.
const NO_DATA: i32 = 232;
/// Number of waiting instances of a pipe. With only one, most of many concurrent clients find the pipe busy, and Go
/// clients give up after two seconds.
const WAITING: usize = 4;
/// How many times the creation of an instance is retried, and the pause between attempts.
const TRIES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Pipes {
    security: Arc<Security>,
    stop: CancellationToken,
}

impl Pipes {
    /// Creates the factory. After `stop` is cancelled, its pipes accept no clients.
    pub(crate) fn new(security: Security, stop: CancellationToken) -> Self {
        Self { security: Arc::new(security), stop }
    }
}

/// The clients of one pipe. Dropping it closes the waiting instances.
pub(crate) struct Clients {
    accepted: Receiver<io::Result<(NamedPipeServer, Peer)>>,
    _accepting: JoinSet<()>,
}

impl Stream for Clients {
    type Item = io::Result<(NamedPipeServer, Peer)>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.accepted.poll_recv(cx)
    }
}

impl Transport for Pipes {
    type Stream = NamedPipeServer;

    fn listen(
        &self,
        pipe: &str,
    ) -> io::Result<impl Stream<Item = io::Result<(Self::Stream, Peer)>> + Send + Unpin + 'static> {
        let maker = Maker { pipe: pipe.to_owned(), security: Arc::clone(&self.security) };
        let maker = Arc::new(maker);
        let (sender, accepted) = channel(1);
        let mut accepting = JoinSet::new();
        for nth in 0..WAITING {
            let instance = maker.instance(nth == 0).map_err(|error| explained(nth, error))?;
            accepting.spawn(Arc::clone(&maker).accept(instance, sender.clone(), self.stop.clone()));
        }
        Ok(Clients { accepted, _accepting: accepting })
    }
}

/// Adds an explanation to the error: the descriptor of the first instance determines which accounts may create the
/// other instances.
fn explained(nth: usize, error: io::Error) -> io::Error {
    if nth == 0 || error.kind() != io::ErrorKind::PermissionDenied {
        return error;
    }
    let user = own_user().unwrap_or_else(|| "this process's user".to_owned());
    let missing = format!(
        "{error}: {user} lacks FILE_CREATE_PIPE_INSTANCE (0x4); add (A;;GA;;;{user}) to --pipe-security-descriptor"
    );
    io::Error::new(error.kind(), missing)
}

struct Maker {
    pipe: String,
    security: Arc<Security>,
}

impl Maker {
    /// Creates an instance of a bidirectional byte pipe for local clients only. The number of instances is not limited.
    /// Creating the first instance fails if another process already serves the pipe.
    fn instance(&self, is_first: bool) -> io::Result<NamedPipeServer> {
        let mut options = ServerOptions::new();
        // Set the mode first: old versions of tokio reset the rejection of remote clients when they set the mode.
        options.pipe_mode(PipeMode::Byte).first_pipe_instance(is_first).reject_remote_clients(true);
        self.security.attributes(|attributes| {
            // SAFETY: the attributes and their descriptor live until the call returns, and Windows copies both.
            unsafe { options.create_with_security_attributes_raw(&self.pipe, attributes) }
        })
    }

    /// Accepts clients. Creates a new waiting instance before it passes on a connected one, so that clients always find
    /// the pipe.
    async fn accept(
        self: Arc<Self>,
        first: NamedPipeServer,
        clients: Sender<io::Result<(NamedPipeServer, Peer)>>,
        stop: CancellationToken,
    ) {
        let mut waiting = first;
        loop {
            let met = tokio::select! {
                () = stop.cancelled() => return,
                met = waiting.connect() => met,
            };
            let accepted = match met {
                Ok(()) => match self.another().await {
                    Ok(next) => {
                        let met = std::mem::replace(&mut waiting, next);
                        let client = client_of(met.as_raw_handle());
                        Ok((met, client))
                    }
                    Err(error) => Err(error),
                },
                Err(error) if error.raw_os_error() == Some(NO_DATA) => {
                    if let Err(error) = waiting.disconnect() {
                        tracing::debug!(pipe = self.pipe, %error, "failed to disconnect a client that has left");
                    }
                    continue;
                }
                Err(error) => Err(error),
            };
            let is_over = accepted.is_err();
            if clients.send(accepted).await.is_err() || is_over {
                return;
            }
        }
    }

    /// Creates another instance. Retries, so that a temporary lack of resources in Windows does not end the service.
    async fn another(&self) -> io::Result<NamedPipeServer> {
        let mut tries = 0;
        loop {
            match self.instance(false) {
                Err(error) if tries < TRIES => {
                    tracing::warn!(pipe = self.pipe, %error, "failed to create a new instance of the pipe");
                    tries += 1;
                    sleep(PAUSE).await;
                }
                made => return made,
            }
        }
    }
}
