//! Connections over a local socket or TCP, and their state, which depends on the bytes that they have received.

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::io::InspectReader;

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

pub(crate) type Stream = Box<dyn Io>;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Link {
    /// There is no connection, or it has ended.
    Down,
    /// The connection exists, but the server has not sent enough bytes yet.
    Open,
    Heard,
}

pub(crate) type LinkState = (u64, Link);

/// Creates a sender for [`heard`]. The initial state is that there is no connection.
pub(crate) fn link() -> (watch::Sender<LinkState>, watch::Receiver<LinkState>) {
    watch::channel((0, Link::Down))
}

/// Reports the state of one connection, and its end when it is dropped.
struct Report {
    number: u64,
    state: watch::Sender<LinkState>,
}

impl Report {
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

impl Drop for Report {
    fn drop(&mut self) {
        self.tell(Link::Down);
    }
}

/// Makes `inner` the newest connection, which reports when the server has sent `enough` bytes, and when it has ended.
pub(crate) fn heard<S: AsyncRead>(
    inner: S,
    enough: usize,
    state: watch::Sender<LinkState>,
) -> InspectReader<S, impl FnMut(&[u8])> {
    let mut number = 0;
    state.send_modify(|newest| {
        number = newest.0 + 1;
        *newest = (number, Link::Open);
    });
    let report = Report { number, state };
    let mut missing = enough;
    InspectReader::new(inner, move |bytes| {
        let is_waiting = missing > 0;
        missing = missing.saturating_sub(bytes.len());
        if is_waiting && missing == 0 {
            report.tell(Link::Heard);
        }
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn link_state_is_heard_after_enough_bytes_and_down_once_closed() {
        let (state, seen) = link();
        let (mut other, here) = duplex(64);
        let mut here = heard(here, 3, state);
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
    async fn closing_an_older_connection_keeps_the_newest_link_state() {
        let (state, seen) = link();
        let older = heard(duplex(1).0, 1, state.clone());
        let newest = heard(duplex(1).0, 1, state);
        drop(older);
        assert_eq!(*seen.borrow(), (2, Link::Open));
        drop(newest);
        assert_eq!(*seen.borrow(), (2, Link::Down));
    }
}
