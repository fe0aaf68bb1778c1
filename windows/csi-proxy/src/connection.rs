//! A client's connection for the gRPC server.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use grpc_authority::LenientStream;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_util::sync::CancellationToken;
use tonic::transport::server::Connected;

use crate::pace::Pace;
use crate::peer::Peer;
use crate::preface::PrefaceLimit;

/// State that all calls of a connection share.
#[derive(Debug, Clone)]
pub(crate) struct ConnectionInfo {
    pub(crate) peer: Arc<Peer>,
    pub(crate) pace: Arc<Pace>,
}

/// A connection that ends if the client never sends a preface, and whose invalid authorities are replaced.
#[derive(Debug)]
pub(crate) struct Connection<S> {
    stream: LenientStream<PrefaceLimit<S>>,
    info: ConnectionInfo,
}

impl<S> Connection<S> {
    pub(crate) fn new(stream: S, peer: Peer, stop: CancellationToken) -> Self {
        let stream = LenientStream::new(PrefaceLimit::new(stream, stop));
        Self { stream, info: ConnectionInfo { peer: Arc::new(peer), pace: Arc::new(Pace::new()) } }
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
        Pin::new(&mut self.stream).poll_read(cx, buffer)
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
