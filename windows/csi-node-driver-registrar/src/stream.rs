//! Connections of either kind, and their state, as the bytes that they have received show it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub(crate) type Stream = Box<dyn Io>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// No connection, or it has ended.
    Down,
    /// Connected, but the server has sent too few bytes or none.
    Open,
    Heard,
}

pub(crate) type LinkState = (u64, Link);

/// Creates a sender for [`Heard`], with the state without a connection.
pub(crate) fn link() -> (watch::Sender<LinkState>, watch::Receiver<LinkState>) {
    watch::channel((0, Link::Down))
}

/// A connection that reports when the server has sent some bytes, and when it has ended.
pub(crate) struct Heard<S> {
    inner: S,
    number: u64,
    /// Bytes until it counts as heard.
    missing: usize,
    state: watch::Sender<LinkState>,
}

impl<S> Heard<S> {
    /// Makes this the newest connection; `enough` bytes make it heard.
    pub(crate) fn new(inner: S, enough: usize, state: watch::Sender<LinkState>) -> Self {
        let mut number = 0;
        state.send_modify(|newest| {
            number = newest.0 + 1;
            *newest = (number, Link::Open);
        });
        Self { inner, number, missing: enough, state }
    }

    fn tell(&self, link: Link) {
        self.state.send_if_modified(|newest| {
            let is_newest = newest.0 == self.number;
            if is_newest {
                newest.1 = link;
            }
            is_newest
        });
    }
}

impl<S> Drop for Heard<S> {
    fn drop(&mut self) {
        self.tell(Link::Down);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Heard<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.inner).poll_read(cx, buffer))?;
        if self.missing > 0 {
            self.missing = self.missing.saturating_sub(buffer.filled().len() - before);
            if self.missing == 0 {
                self.tell(Link::Heard);
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Heard<S> {
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

    use super::*;

    #[tokio::test]
    async fn connection_is_heard_after_enough_bytes_and_down_at_its_end() {
        let (state, seen) = link();
        let (mut other, here) = duplex(64);
        let mut here = Heard::new(here, 3, state);
        assert_eq!(*seen.borrow(), (1, Link::Open));
        other.write_all(b"ab").await.unwrap();
        here.read_exact(&mut [0; 2]).await.unwrap();
        assert_eq!(*seen.borrow(), (1, Link::Open));
        other.write_all(b"c").await.unwrap();
        here.read_exact(&mut [0; 1]).await.unwrap();
        assert_eq!(*seen.borrow(), (1, Link::Heard));
        drop(here);
        assert_eq!(*seen.borrow(), (1, Link::Down));
    }

    #[tokio::test]
    async fn end_of_an_older_connection_keeps_the_newest_state() {
        let (state, seen) = link();
        let older = Heard::new(duplex(1).0, 1, state.clone());
        let newest = Heard::new(duplex(1).0, 1, state);
        drop(older);
        assert_eq!(*seen.borrow(), (2, Link::Open));
        drop(newest);
        assert_eq!(*seen.borrow(), (2, Link::Down));
    }
}
