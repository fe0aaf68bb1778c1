//! `ebs-torture`: runs cycles of the node torture and prints the traces of those that fail; `serve` is the service that is
//! killed.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use clap::{Parser, Subcommand};
use ebs_torture::{Options, ServiceOptions, run, serve};
use tokio::time::Instant;

/// The node torture, for longer than `make test` has time for. Needs root.
#[derive(Debug, Parser)]
#[command(name = "ebs-torture")]
struct Arguments {
    /// How many cycles.
    #[arg(long, default_value_t = 100)]
    cycles: u64,
    /// The first seed; without it one that no run before had.
    #[arg(long)]
    from: Option<u64>,
    /// Run this seed only.
    #[arg(long)]
    seed: Option<u64>,
    /// Threads; each runs cycles of its own.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    /// The node service that a cycle kills.
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        state: PathBuf,
        #[arg(long)]
        devices: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        Some(Role::Serve { socket, state, devices }) => service(&ServiceOptions { socket, state, devices }),
        None => cycles(&arguments),
    };
    match outcome {
        Ok(code) => code,
        Err(error) => {
            let _closed = writeln!(std::io::stderr(), "{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn service(options: &ServiceOptions) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(serve(options)).map(|()| ExitCode::SUCCESS)
}

fn cycles(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options { program: std::env::current_exe()?, planted: None };
    let mut out = std::io::stdout();
    let from = arguments.seed.or(arguments.from).unwrap_or_else(new_seeds);
    let count = if arguments.seed.is_some() { 1 } else { arguments.cycles };
    let began = Instant::now();
    let (next, failures) = (AtomicU64::new(from), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for _ in 0..arguments.threads.min(count) {
            threads.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed - from >= count {
                        break;
                    }
                    if let Some(failure) = run(seed, &options) {
                        failures.fetch_add(1, Ordering::Relaxed);
                        let _closed = writeln!(std::io::stdout(), "{failure}");
                    }
                }
            });
        }
    });
    let failed = failures.load(Ordering::Relaxed);
    let seconds = began.elapsed().as_secs();
    let _closed = writeln!(out, "{count} cycles from seed {from} in {seconds} s: {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn new_seeds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}
