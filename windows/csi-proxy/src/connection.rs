//! A client's connection, in the form that the gRPC server needs.
//!
//! The proxy closes silent connections. Go clients open each pipe once just to check that it exists, and keep that
//! connection as long as they run. A connection without an HTTP/2 preface is closed after a time limit. Until then it
//! uses neither a task nor a thread.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use grpc_authority::LenientStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::server::Connected;

use crate::pace::Pace;
use crate::peer::Peer;

/// Length of the HTTP/2 client preface in bytes.
const PREFACE: usize = 24;

/// How long a client may take to send its preface. grpc-go uses the same limit for a server's preface.
pub const PREFACE_LIMIT: Duration = Duration::from_secs(120);

/// State that all calls of a connection share.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Arc<Peer>,
    pub(crate) pace: Arc<Pace>,
}

/// A connection that replaces invalid authorities. If no preface arrives in time, or before the proxy stops, the
/// connection acts as if the client had closed it.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: LenientStream<S>,
    waiting: Option<Waiting>,
    info: ConnectionInfo,
}

#[derive(Debug)]
struct Waiting {
    missing: usize,
    limit: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> Connection<S> {
    /// Starts the time limit of the preface now. Must be called within a runtime.
    pub(crate) fn new(stream: S, peer: Peer, stop: CancellationToken) -> Self {
        let waiting =
            Waiting { missing: PREFACE, limit: Box::pin(sleep(PREFACE_LIMIT)), stop: Box::pin(stop.cancelled_owned()) };
        let info = ConnectionInfo { peer: Arc::new(peer), pace: Arc::new(Pace::new()) };
        Self { stream: LenientStream::new(stream), waiting: Some(waiting), info }
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = ConnectionInfo;

    fn connect_info(&self) -> ConnectionInfo {
        self.info.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        let this = &mut *self;
        if let Some(waiting) = &mut this.waiting {
            let is_over = waiting.limit.as_mut().poll(cx).is_ready() || waiting.stop.as_mut().poll(cx).is_ready();
            if is_over {
                return Poll::Ready(Ok(()));
            }
        }
        ready!(Pin::new(&mut this.stream).poll_read(cx, buffer))?;
        if let Some(waiting) = &mut this.waiting {
            waiting.missing = waiting.missing.saturating_sub(buffer.filled().len() - start);
            if waiting.missing == 0 {
                this.waiting = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const WHOLE: &[u8; PREFACE] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    #[tokio::test(start_paused = true)]
    async fn connection_without_preface_ends_after_two_minutes() {
        for sent in [0, 1, PREFACE - 1] {
            let (mut client, server) = duplex(64);
            let mut server = Connection::new(server, Peer::default(), CancellationToken::new());
            client.write_all(&WHOLE[..sent]).await.unwrap();
            let began = Instant::now();
            let mut received = Vec::new();
            server.read_to_end(&mut received).await.unwrap();
            assert_eq!(received.len(), sent);
            assert_eq!(began.elapsed().as_secs(), PREFACE_LIMIT.as_secs());
        }
    }

    #[tokio::test(start_paused = true)]
    async fn connection_with_preface_stays_open_without_traffic() {
        let (mut client, server) = duplex(64);
        let stop = CancellationToken::new();
        let mut server = Connection::new(server, Peer::default(), stop.clone());
        client.write_all(WHOLE).await.unwrap();
        let mut preface = [0; PREFACE];
        server.read_exact(&mut preface).await.unwrap();
        stop.cancel();
        let silence = tokio::time::timeout(PREFACE_LIMIT * 10, server.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
        client.write_all(b"x").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'x');
    }
}
