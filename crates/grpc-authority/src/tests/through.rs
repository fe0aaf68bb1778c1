//! Tests the byte stream without rewriting.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt, ReadBuf};

use super::streams::fields;
use super::{Client, Frames, Style, whole};
use crate::LenientStream;

/// A stream that returns at most `step` bytes per read.
struct Slow<'a> {
    rest: &'a [u8],
    step: usize,
}

impl AsyncRead for Slow<'_> {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let (now, later) = self.rest.split_at(self.step.min(self.rest.len()).min(buffer.remaining()));
        buffer.put_slice(now);
        self.rest = later;
        Poll::Ready(Ok(()))
    }
}

fn stream() -> Vec<u8> {
    let mut client = Client::new();
    for authority in ["/csi/csi.sock", "localhost", "%2Fcsi%2Fa%2Flonger%2Fpath.sock"] {
        let style = Style { indexed: true, coded: authority.len() > 15, ..Style::default() };
        client.request_with_body(&fields(authority, &[("other", "x")]), &style, &[b'/'; 100]);
        client.request(&fields(authority, &[]), &style, &Frames { fragments: vec![40, 5], ..Frames::default() });
    }
    client.bytes
}

#[tokio::test]
async fn rewritten_bytes_do_not_depend_on_read_sizes() {
    let sent = stream();
    for step in [1, 2, 7, 64, 1 << 13] {
        for room in [1, 3, 50, 1 << 13] {
            let mut stream = LenientStream::new(Slow { rest: &sent, step });
            let (mut got, mut buffer) = (Vec::new(), vec![0; room]);
            loop {
                let count = stream.read(&mut buffer).await.expect("no errors");
                got.extend_from_slice(&buffer[..count]);
                if count == 0 {
                    break;
                }
            }
            assert_eq!(got, whole(&sent), "{step} bytes at a time into {room}");
        }
    }
}

#[tokio::test]
async fn all_bytes_pass_when_the_stream_ends_in_an_authority() {
    let mut client = Client::new();
    client.request(&fields("/csi/csi.sock", &[]), &Style::default(), &Frames::default());
    let cut = client.bytes.len() - 4;
    for step in [1, 1 << 13] {
        let mut stream = LenientStream::new(Slow { rest: &client.bytes[..cut], step });
        let mut got = Vec::new();
        stream.read_to_end(&mut got).await.expect("no errors");
        assert_eq!(got, client.bytes[..cut]);
        assert_eq!(stream.read(&mut [0; 10]).await.expect("no errors"), 0, "the end stays");
    }
}

#[tokio::test]
async fn written_bytes_pass_unchanged() {
    let (mut client, server) = tokio::io::duplex(100);
    let mut server = LenientStream::new(server);
    assert!(tokio::io::AsyncWrite::is_write_vectored(&server));
    let slices = [io::IoSlice::new(b"/csi"), io::IoSlice::new(b"/csi.sock")];
    assert_eq!(server.write_vectored(&slices).await.expect("there is room"), 13);
    server.write_all(b"!").await.expect("there is room");
    server.shutdown().await.expect("the client is there");
    let mut got = String::new();
    client.read_to_string(&mut got).await.expect("text");
    assert_eq!(got, "/csi/csi.sock!");
}
