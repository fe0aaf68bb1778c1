//! Connections that nobody speaks on. Go clients open each pipe once only to see whether it is there, and keep that connection as
//! long as they live; what has sent no HTTP/2 preface is closed in the end, and costs no task and no thread until then.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

/// The bytes that an HTTP/2 client begins with.
const PREFACE: usize = 24;

/// How long a client may take for its preface: grpc-go's own limit for a server's.
pub const PREFACE_LIMIT: Duration = Duration::from_secs(120);

/// A connection that ends, as if the client had closed it, when no preface has come in time, or none until the proxy stops.
#[derive(Debug)]
pub(crate) struct PrefaceLimit<S> {
    inner: S,
    waiting: Option<Waiting>,
}

#[derive(Debug)]
struct Waiting {
    missing: usize,
    limit: Pin<Box<Sleep>>,
    stop: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<S> PrefaceLimit<S> {
    /// Counts from now on; must be called within a runtime.
    pub(crate) fn new(inner: S, stop: CancellationToken) -> Self {
        let waiting =
            Waiting { missing: PREFACE, limit: Box::pin(sleep(PREFACE_LIMIT)), stop: Box::pin(stop.cancelled_owned()) };
        Self { inner, waiting: Some(waiting) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PrefaceLimit<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        let this = &mut *self;
        if let Some(waiting) = &mut this.waiting {
            let is_over = waiting.limit.as_mut().poll(cx).is_ready() || waiting.stop.as_mut().poll(cx).is_ready();
            if is_over {
                return Poll::Ready(Ok(()));
            }
        }
        ready!(Pin::new(&mut this.inner).poll_read(cx, buffer))?;
        if let Some(waiting) = &mut this.waiting {
            waiting.missing = waiting.missing.saturating_sub(buffer.filled().len() - start);
            if waiting.missing == 0 {
                this.waiting = None;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PrefaceLimit<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    const WHOLE: &[u8; PREFACE] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

    /// A connection without a complete HTTP/2 preface ends after two minutes; one that has sent it stays.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_a_preface_ends_after_two_minutes() {
        for sent in [0, 1, PREFACE - 1] {
            let (mut client, server) = duplex(64);
            let mut server = PrefaceLimit::new(server, CancellationToken::new());
            client.write_all(&WHOLE[..sent]).await.unwrap();
            let began = Instant::now();
            let mut received = Vec::new();
            server.read_to_end(&mut received).await.unwrap();
            assert_eq!(received.len(), sent);
            assert_eq!(began.elapsed().as_secs(), PREFACE_LIMIT.as_secs());
        }
    }

    /// One that has sent its preface may be silent as long as it likes, also when the proxy stops.
    #[tokio::test(start_paused = true)]
    async fn a_connection_with_a_preface_may_be_silent() {
        let (mut client, server) = duplex(64);
        let stop = CancellationToken::new();
        let mut server = PrefaceLimit::new(server, stop.clone());
        client.write_all(WHOLE).await.unwrap();
        let mut preface = [0; PREFACE];
        server.read_exact(&mut preface).await.unwrap();
        stop.cancel();
        let silence = tokio::time::timeout(PREFACE_LIMIT * 10, server.read_u8()).await;
        assert!(silence.is_err(), "{silence:?}");
        client.write_all(b"x").await.unwrap();
        assert_eq!(server.read_u8().await.unwrap(), b'x');
    }

    /// A silent connection does not keep the proxy from stopping.
    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_ends_when_the_proxy_stops() {
        let (_client, server) = duplex(64);
        let stop = CancellationToken::new();
        let mut server = PrefaceLimit::new(server, stop.clone());
        let began = Instant::now();
        let (end, ()) = tokio::join!(server.read_u8(), async {
            sleep(Duration::from_secs(1)).await;
            stop.cancel();
        });
        assert!(end.is_err() && began.elapsed() < Duration::from_secs(2), "{end:?}");
    }
}
