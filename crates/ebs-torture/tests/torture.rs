//! A short run of the node torture, and the proof that it finds bugs. Needs root.
//!
//! `make torture CYCLES=1000` runs as many as are wanted; `target/debug/ebs-torture --seed N` runs one again.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ebs_torture::{Failure, Options, Planted, run};
use tokio::time::Instant;

/// How many cycles `make test` runs, and for how long at most.
const CYCLES: u64 = 32;
const BOUND: Duration = Duration::from_secs(20);
/// Within so many cycles every planted bug must be found.
const CYCLES_FOR_A_BUG: u64 = 400;
/// It takes seconds where nothing else runs, and on two cores with a load of 40 twenty seconds for one cycle.
const BOUND_FOR_A_BUG: Duration = Duration::from_secs(1_500);
const THREADS: usize = 2;

fn options(planted: Option<Planted>) -> Options {
    Options { program: env!("CARGO_BIN_EXE_ebs-torture").into(), planted }
}

/// Runs cycles until they are done, one has failed, or the time is over. The failures, and how many cycles were run.
fn failures(cycles: u64, bound: Duration, planted: Option<Planted>) -> (Vec<Failure>, u64) {
    let (next, failed, began) = (AtomicU64::new(0), Mutex::new(Vec::new()), Instant::now());
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while failed.lock().expect("no cycle panics").is_empty() && began.elapsed() < bound {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= cycles {
                        break;
                    }
                    failed.lock().expect("no cycle panics").extend(run(seed, &options(planted)));
                }
            });
        }
    });
    (failed.into_inner().expect("no cycle panics"), next.into_inner().min(cycles))
}

/// A node that is killed at random moments loses nothing, formats nothing that held data, and leaves nothing behind.
///
/// Rule: D-5, D-10, D-32, D-37
#[test]
fn a_node_that_is_killed_at_random_loses_nothing_formats_nothing_and_leaves_nothing_behind() {
    let (failed, cycles) = failures(CYCLES, BOUND, None);
    let traces: Vec<String> = failed.iter().map(ToString::to_string).collect();
    assert!(failed.is_empty(), "{}", traces.join("\n"));
    assert!(cycles >= 2, "only {cycles} cycles in {BOUND:?}");
}

/// The rule that each planted bug breaks.
fn rule_against(bug: Planted) -> &'static str {
    match bug {
        Planted::RecordOutlivesRefusal | Planted::RecordOutlivesRawPublish => "raw",
        Planted::MountStaysBehind => "mounts were left behind",
    }
}

/// Each bug planted for the node torture is found.
///
/// Rule: own rule (tests)
#[test]
fn each_planted_bug_is_found() {
    for bug in Planted::ALL {
        let (failed, cycles) = failures(CYCLES_FOR_A_BUG, BOUND_FOR_A_BUG, Some(bug));
        let rule = failed.first().map(|failure| failure.rule.as_str());
        assert!(rule.is_some_and(|rule| rule.contains(rule_against(bug))), "{bug:?} in {cycles} cycles: {failed:?}");
    }
}
