//! Signals that this process sends to itself. The tests are a program of their own, because signals affect the whole
//! process.

#![cfg(unix)]

use std::time::Duration;

use component_base::signals::Signals;
use rustix::process::{Signal, getpid, kill_process};

/// The time limit for the arrival of a signal on a busy machine.
const LIMIT: Duration = Duration::from_secs(60);

fn send(signal: Signal) {
    kill_process(getpid(), signal).expect("a process may signal itself");
}

async fn next(signals: &mut Signals) -> &'static str {
    tokio::time::timeout(LIMIT, signals.next()).await.expect("the signal does not arrive")
}

/// Once a program listens, SIGTERM and SIGINT do not end it. All listeners receive each signal with its name, even if
/// it arrived before they began to wait.
#[tokio::test]
async fn all_listeners_receive_each_signal_by_name() {
    let mut signals = Signals::listen().unwrap();
    let mut also = Signals::listen().unwrap();
    send(Signal::TERM);
    assert_eq!([next(&mut signals).await, next(&mut also).await], ["SIGTERM"; 2]);
    send(Signal::INT);
    assert_eq!([next(&mut signals).await, next(&mut also).await], ["SIGINT"; 2]);
    // Programs interrupt a drain at the second signal, so it must arrive too.
    send(Signal::TERM);
    assert_eq!(next(&mut signals).await, "SIGTERM");
    drop((signals, also));
    // The process survives a signal even without a listener.
    send(Signal::INT);
    let mut late = Signals::listen().unwrap();
    send(Signal::TERM);
    // The previous signal may still be pending.
    while next(&mut late).await != "SIGTERM" {}
}
