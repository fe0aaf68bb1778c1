//! Signals that this process sends to itself. In a program of its own: they are the whole process's.

#![cfg(unix)]

use std::time::Duration;

use process_signals::Signals;
use rustix::process::{Signal, getpid, kill_process};

/// How long a signal may take on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn send(signal: Signal) {
    kill_process(getpid(), signal).expect("a process may signal itself");
}

async fn next(signals: &mut Signals) -> &'static str {
    tokio::time::timeout(LIMIT, signals.next()).await.expect("the signal does not arrive")
}

/// SIGTERM and SIGINT end nothing by themselves from the moment a program listens: each is told by its name, also one that came before
/// anybody looked, to all that listen.
#[tokio::test]
async fn requests_to_end_are_told_by_name_to_all_that_listen() {
    let mut signals = Signals::listen().unwrap();
    let mut also = Signals::listen().unwrap();
    send(Signal::TERM);
    assert_eq!([next(&mut signals).await, next(&mut also).await], ["SIGTERM"; 2]);
    send(Signal::INT);
    assert_eq!([next(&mut signals).await, next(&mut also).await], ["SIGINT"; 2]);
    // The second one after a first, as a drain that is cut short sees it.
    send(Signal::TERM);
    assert_eq!(next(&mut signals).await, "SIGTERM");
    drop((signals, also));
    // Nobody listens, and the process lives on.
    send(Signal::INT);
    let mut late = Signals::listen().unwrap();
    send(Signal::TERM);
    // The one before it may have been on its way still.
    while next(&mut late).await != "SIGTERM" {}
}
