//! Tests streams of real clients, and of a configurable test client, with a real `h2` server.

use crate::rewriter::{MAX_HELD, Rewriter};

mod client;
mod recorded;
mod server;
mod streams;
mod through;

pub(crate) use client::{Client, Field, Frames, Style};
pub(crate) use server::{Answer, answers};

/// Returns the rewritten stream if the client's bytes arrive in pieces of these lengths, which repeat. Also returns the
/// largest number of bytes that were held back at once.
pub(crate) fn rewritten(stream: &[u8], pieces: &[usize]) -> (Vec<u8>, usize) {
    let mut rewriter = Rewriter::new();
    let (mut passed, mut waiting, mut most) = (Vec::new(), Vec::new(), 0);
    let (mut rest, mut lengths) = (stream, pieces.iter().cycle());
    while !rest.is_empty() {
        let length = lengths.next().map_or(rest.len(), |length| (*length).clamp(1, rest.len()));
        let (piece, later) = rest.split_at(length);
        waiting.extend_from_slice(piece);
        let count = rewriter.pass(&mut waiting);
        passed.extend(waiting.drain(..count));
        most = most.max(waiting.len());
        rest = later;
    }
    assert!(most <= MAX_HELD, "{most} bytes wait");
    // At the end of the stream, pass on the bytes that still wait.
    passed.extend(waiting);
    (passed, most)
}

pub(crate) fn whole(stream: &[u8]) -> Vec<u8> {
    rewritten(stream, &[]).0
}
