//! `ebs-model`: runs the model test for as long as asked, or one seed of it with its whole story.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use ebs_model::{Options, run_on_port};
use tokio::time::Instant;

const STACK: usize = 16 << 20;

/// The model test, for longer than `make test` has time for.
#[derive(Debug, Parser)]
#[command(name = "ebs-model")]
struct Arguments {
    /// Run new seeds for so many seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// The first seed; without it one that no run before had.
    #[arg(long)]
    from: Option<u64>,
    /// Run this seed only, and tell every call.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; each runs seeds of its own.
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout();
    if let Some(seed) = arguments.seed {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || one(seed, true));
        let failed = thread.expect("a thread starts").join().expect("no run panics");
        let _closed = match &failed {
            Some(failure) => write!(out, "{failure}"),
            None => writeln!(out, "seed {seed} passes"),
        };
        return if failed.is_some() { ExitCode::FAILURE } else { ExitCode::SUCCESS };
    }
    let from = arguments.from.unwrap_or_else(new_seeds);
    let (next, failures) = (Arc::new(AtomicU64::new(from)), Arc::new(AtomicU64::new(0)));
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    std::thread::scope(|threads| {
        for _ in 0..arguments.threads {
            // Unoptimised futures are large.
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(threads, || {
                while Instant::now() < end {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if let Some(failure) = one(seed, false) {
                        failures.fetch_add(1, Ordering::Relaxed);
                        let _closed = writeln!(std::io::stdout(), "seed {}: {}", failure.seed, failure.rule);
                    }
                }
            });
            thread.expect("a thread starts");
        }
    });
    let (runs, failures) = (next.load(Ordering::Relaxed) - from, failures.load(Ordering::Relaxed));
    let _closed = writeln!(out, "{runs} seeds from {from} on, {failures} failed");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A million seeds for every second since 1970.
fn new_seeds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() * 1_000_000)
}

/// The failure of a seed, if it fails.
fn one(seed: u64, verbose: bool) -> Option<ebs_model::Failure> {
    run_on_port(seed, &Options { verbose, ..Options::default() }).err()
}
