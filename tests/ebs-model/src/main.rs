//! `ebs-model`: runs the model test for a given time, or one seed with its whole trace.

use std::io::Write as _;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use ebs_model::{Failure, Options, Planted, run_on_port};
use tokio::time::Instant;

const STACK: usize = 16 << 20;

/// The model test, for longer runs than in `make test`.
#[derive(Debug, Parser)]
#[command(name = "ebs-model")]
struct Arguments {
    /// Run new seeds for this time, in seconds.
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// First seed [default: an unused one]
    #[arg(long)]
    from: Option<u64>,
    /// Run only this seed, and print every call.
    #[arg(long)]
    seed: Option<u64>,
    /// Plant this bug, to check that the model finds it.
    #[arg(long, value_parser = planted)]
    planted: Option<Planted>,
    /// Number of threads, each with separate seeds.
    #[arg(long, default_value_t = 2)]
    threads: u64,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let mut out = std::io::stdout();
    if let Some(seed) = arguments.seed {
        let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || one(seed, arguments.planted, true));
        let ended = thread.expect("a thread starts").join().expect("no run panics");
        let (report, code) = match ended {
            Ok(trace) => (format!("{}\nseed {seed} passes\n", trace.join("\n")), ExitCode::SUCCESS),
            Err(failure) => (failure.to_string(), ExitCode::FAILURE),
        };
        let _closed = out.write_all(report.as_bytes());
        return code;
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
                    if let Err(failure) = one(seed, arguments.planted, false) {
                        failures.fetch_add(1, Ordering::Relaxed);
                        let _closed = writeln!(std::io::stdout(), "seed {}: {}", failure.seed, failure.rule);
                    }
                }
            });
            thread.expect("a thread starts");
        }
    });
    let (runs, failures) = (next.load(Ordering::Relaxed) - from, failures.load(Ordering::Relaxed));
    let _closed = writeln!(out, "{runs} seeds from {from}, {failures} failed");
    if failures == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns a new first seed: a million seeds for every second since 1970.
fn new_seeds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() * 1_000_000)
}

/// Runs one seed and returns its trace or its failure.
fn one(seed: u64, planted: Option<Planted>, verbose: bool) -> Result<Vec<String>, Failure> {
    run_on_port(seed, &Options { planted, verbose })
}

fn planted(name: &str) -> Result<Planted, String> {
    let named = |bug: &&Planted| format!("{bug:?}").eq_ignore_ascii_case(name);
    Planted::ALL.iter().find(named).copied().ok_or_else(|| format!("unknown bug; choose one of {:?}", Planted::ALL))
}
