//! A connection whose bytes are changed while they are read.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::rewriter::Rewriter;

/// The server's end of a connection to an HTTP/2 client. Bytes read from it contain valid authorities. Written bytes
/// pass unchanged. Whatever the client sends, reads fail only if the inner stream fails.
#[derive(Debug)]
pub struct LenientStream<S> {
    inner: S,
    rewriter: Rewriter,
    /// The bytes of an incomplete authority, and bytes after it that arrived in the same read.
    held: Vec<u8>,
    /// How many bytes at the front of `held` are final and can be passed on.
    passed: usize,
}

impl<S> LenientStream<S> {
    /// Wraps a connection from its first byte on.
    pub fn new(inner: S) -> Self {
        Self { inner, rewriter: Rewriter::new(), held: Vec::new(), passed: 0 }
    }

    fn hand_on(&mut self, buffer: &mut ReadBuf<'_>) {
        let count = self.passed.min(buffer.remaining());
        buffer.put_slice(&self.held[..count]);
        self.held.drain(..count);
        self.passed -= count;
        if self.held.is_empty() {
            self.held = Vec::new();
        }
    }

    /// Holds back the bytes of `buffer` after `start` that are not final yet. If there are no such new bytes, the
    /// stream has ended.
    fn arrived(&mut self, buffer: &mut ReadBuf<'_>, start: usize) {
        let new = &mut buffer.filled_mut()[start..];
        if new.is_empty() {
            self.rewriter.give_up();
            self.passed = self.held.len();
            return;
        }
        if self.held.is_empty() {
            let passed = self.rewriter.pass(new);
            self.held.extend_from_slice(&new[passed..]);
            buffer.set_filled(start + passed);
        } else {
            self.held.extend_from_slice(new);
            buffer.set_filled(start);
            self.passed = self.rewriter.pass(&mut self.held);
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LenientStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let start = buffer.filled().len();
        while buffer.remaining() > 0 && buffer.filled().len() == start {
            if self.passed > 0 {
                self.hand_on(buffer);
                break;
            }
            ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
            let is_end = buffer.filled().len() == start;
            self.arrived(buffer, start);
            if is_end && self.passed == 0 {
                break;
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LenientStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.inner).poll_write_vectored(cx, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.inner.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}
