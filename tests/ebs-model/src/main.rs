//! `ebs-model`: runs the model test for a given time, or runs one seed and prints its whole trace.

use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ebs_model::{Options, Planted, run_on_port, run_seeds};
use tokio::time::Instant;

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
    #[arg(long, ignore_case = true)]
    planted: Option<Planted>,
    /// Number of threads, each with separate seeds.
    #[arg(long, default_value_t = 2)]
    threads: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let say = |text: String| drop(writeln!(std::io::stdout(), "{text}"));
    let options = Options { planted: arguments.planted, verbose: arguments.seed.is_some() };
    let from = arguments.seed.or(arguments.from).unwrap_or_else(new_seeds);
    let until = arguments.seed.map_or(u64::MAX, |seed| seed + 1);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let (failed, runs) = run_seeds(
        arguments.threads,
        from..until,
        |_| Instant::now() >= end,
        |seed| match run_on_port(seed, &options) {
            Ok(trace) if options.verbose => {
                say(trace.join("\n"));
                None
            }
            Ok(_) => None,
            Err(failure) => {
                let is_whole = options.verbose;
                say(if is_whole { failure.to_string() } else { format!("seed {}: {}", failure.seed, failure.rule) });
                Some(failure)
            }
        },
    );
    say(format!("{runs} seeds from {from}, {} failed", failed.len()));
    if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Returns an unused first seed: a million seeds for every second since 1970.
fn new_seeds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs() * 1_000_000)
}
