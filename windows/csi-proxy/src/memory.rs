//! Pipes in memory, for tests of this crate and of its clients.

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

/// Pipes by their names. `None` means that another process has taken the name.
#[derive(Debug, Clone, Default)]
pub struct MemoryPipes(Arc<Mutex<BTreeMap<String, Option<Listener>>>>);

impl MemoryPipes {
    fn pipes(&self) -> MutexGuard<'_, BTreeMap<String, Option<Listener>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a pipe as LocalSystem would. Fails with error 2 if the pipe is not served, as on Windows.
    pub fn open(&self, pipe: &str) -> io::Result<DuplexStream> {
        let client = Peer { pid: Some(4711), sid: Some("S-1-5-18".to_owned()), ..Peer::default() };
        let (near, far) = tokio::io::duplex(1 << 20);
        if self.send(pipe, Ok((far, client))) { Ok(near) } else { Err(io::Error::from_raw_os_error(2)) }
    }

    /// Makes the listener of a pipe fail. Returns false if the pipe does not exist.
    pub fn fail(&self, pipe: &str) -> bool {
        self.send(pipe, Err(io::Error::from_raw_os_error(1450)))
    }

    fn send(&self, pipe: &str, accepted: io::Result<(DuplexStream, Peer)>) -> bool {
        let pipes = self.pipes();
        pipes.get(pipe).and_then(Option::as_ref).is_some_and(|listener| listener.send(accepted).is_ok())
    }

    /// Takes the name of a pipe, as another process does.
    pub fn take(&self, pipe: &str) {
        self.pipes().insert(pipe.to_owned(), None);
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
        let mut pipes = self.pipes();
        if pipes.get(pipe).is_some_and(Option::is_none) {
            return Err(io::Error::from_raw_os_error(5));
        }
        pipes.insert(pipe.to_owned(), Some(sender));
        Ok(stream::poll_fn(move |cx| receiver.poll_recv(cx)))
    }
}

impl Dial for MemoryPipes {
    type Stream = DuplexStream;

    async fn dial(&self, pipe: &str) -> io::Result<DuplexStream> {
        self.open(pipe)
    }
}
