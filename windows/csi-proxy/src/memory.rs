//! Pipes in memory, for tests of this crate and of clients.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use csi_proto::csi_proxy::Dial;
use futures_util::{Stream, stream};
use tokio::io::DuplexStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::peer::Peer;
use crate::proxy::Transport;

type Listener = UnboundedSender<io::Result<(DuplexStream, Peer)>>;

#[derive(Debug, Clone, Default)]
pub struct MemoryPipes(Arc<Mutex<BTreeMap<String, Listener>>>);

impl MemoryPipes {
    fn pipes(&self) -> MutexGuard<'_, BTreeMap<String, Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a pipe as this client. Fails with error 2 if the pipe is not served, as on Windows.
    pub fn open(&self, pipe: &str, client: Peer) -> io::Result<DuplexStream> {
        let missing = || io::Error::from_raw_os_error(2);
        let (near, far) = tokio::io::duplex(1 << 20);
        self.pipes().get(pipe).ok_or_else(missing)?.send(Ok((far, client))).map_err(|_| missing())?;
        Ok(near)
    }

    /// Makes the listener of a pipe fail. Returns false if the pipe does not exist.
    pub fn fail(&self, pipe: &str, error: io::Error) -> bool {
        self.pipes().get(pipe).is_some_and(|listener| listener.send(Err(error)).is_ok())
    }

    pub fn names(&self) -> Vec<String> {
        self.pipes().keys().cloned().collect()
    }
}

impl Transport for MemoryPipes {
    type Stream = DuplexStream;

    fn listen(
        &self,
        pipe: &str,
    ) -> io::Result<impl Stream<Item = io::Result<(DuplexStream, Peer)>> + Send + Unpin + 'static> {
        let (sender, mut receiver) = unbounded_channel();
        self.pipes().insert(pipe.to_owned(), sender);
        Ok(stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    }
}

impl Dial for MemoryPipes {
    type Stream = DuplexStream;

    async fn dial(&self, pipe: &str) -> io::Result<DuplexStream> {
        self.open(pipe, Peer::default())
    }
}
