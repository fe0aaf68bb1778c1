//! `ebs-torture`: runs cycles of the node torture and prints the traces of failed ones. `serve` is the service that
//! cycles kill. `vm` runs the tests in a virtual machine, where `guest` is their program.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use clap::{Parser, Subcommand};
use ebs_testkit::run_dir::RunDir;
use ebs_torture::{Counts, Options, Planted, ServiceOptions, run_seeds, serve, vm};
use tokio::time::Instant;

/// The node torture, for longer runs than in `make test`. Requires root.
#[derive(Debug, Parser)]
#[command(name = "ebs-torture")]
struct Arguments {
    /// Number of cycles [default: 100, without --seconds].
    #[arg(long)]
    cycles: Option<u64>,
    /// Duration in seconds.
    #[arg(long)]
    seconds: Option<u64>,
    /// Plant this bug, to check that the torture finds it.
    #[arg(long, ignore_case = true)]
    planted: Option<Planted>,
    /// First seed [default: an unused one].
    #[arg(long)]
    from: Option<u64>,
    /// Run only this seed.
    #[arg(long)]
    seed: Option<u64>,
    /// Number of threads, each with separate cycles.
    #[arg(long, default_value_t = 2)]
    threads: u64,
    #[command(subcommand)]
    role: Option<Role>,
}

#[derive(Debug, Subcommand)]
enum Role {
    Vm(vm::Arguments),
    /// The tests inside of the virtual machine.
    #[command(hide = true)]
    Guest,
    /// The node service that a cycle kills.
    #[command(hide = true)]
    Serve {
        #[arg(long)]
        socket: PathBuf,
        #[arg(long)]
        state: PathBuf,
        #[arg(long)]
        devices: PathBuf,
        #[arg(long, default_value = "/proc/sys/kernel/random/boot_id")]
        boot_id: PathBuf,
        #[arg(long)]
        parent: u32,
    },
    /// Serves the files of the disks.
    #[command(hide = true)]
    Disks {
        #[arg(long)]
        parent: u32,
        #[arg(long)]
        mount: PathBuf,
        #[arg(long)]
        socket: PathBuf,
    },
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let outcome = match arguments.role {
        Some(Role::Serve { socket, state, devices, boot_id, parent }) => {
            let options = ServiceOptions { socket, state, devices, boot_id };
            lives(parent).and_then(|()| in_runtime(1, serve(&options))).map(|()| ExitCode::SUCCESS)
        }
        Some(Role::Disks { parent, mount, socket }) => {
            lives(parent).and_then(|()| ebs_torture::cut_disk::serve(&mount, &socket)).map(|()| ExitCode::SUCCESS)
        }
        Some(Role::Vm(arguments)) => {
            in_runtime(1, vm::run(&arguments)).map(|passed| if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Some(Role::Guest) => in_runtime(2, vm::guest::run()).map(|()| ExitCode::SUCCESS),
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

/// Fails if the parent process has already ended. The kernel sends no signal for a parent that ended before the prctl.
fn lives(parent: u32) -> anyhow::Result<()> {
    let now = rustix::process::getppid().map(|pid| pid.as_raw_nonzero().get());
    anyhow::ensure!(now.and_then(|pid| u32::try_from(pid).ok()) == Some(parent), "the parent process has ended");
    Ok(())
}

fn in_runtime<T>(threads: usize, work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_multi_thread().worker_threads(threads).enable_all().build()?.block_on(work)
}

fn cycles(arguments: &Arguments) -> anyhow::Result<ExitCode> {
    let options = Options { program: std::env::current_exe()?, planted: arguments.planted };
    // The first call of `RunDir::current` removes the leftovers of killed runs.
    let _place = RunDir::current()?;
    let from = arguments.seed.or(arguments.from).unwrap_or_else(new_seeds);
    let count = match (arguments.seed, arguments.cycles, arguments.seconds) {
        (Some(_), _, _) => 1,
        (None, Some(cycles), _) => cycles,
        (None, None, Some(_)) => u64::MAX,
        (None, None, None) => 100,
    };
    let bound = arguments.seconds.map_or(Duration::MAX, Duration::from_secs);
    let began = Instant::now();
    let sum = Mutex::new((Counts::default(), Vec::new(), 0_u64));
    let tell = |line: String| drop(writeln!(std::io::stdout(), "{line}"));
    run_seeds(from, count, (arguments.threads, bound), &options, |outcome| {
        if let Some(failure) = &outcome.failure {
            tell(failure.to_string());
        }
        let mut sum = sum.lock().unwrap_or_else(PoisonError::into_inner);
        sum.0.join(&outcome.counts);
        sum.1.extend(outcome.failure.map(|failure| failure.seed));
        sum.2 += 1;
        if sum.2.is_multiple_of(100) {
            tell(format!("{} cycles in {} s: {} failed", sum.2, began.elapsed().as_secs(), sum.1.len()));
        }
        true
    });
    let (counts, failed, cycles) = sum.into_inner().unwrap_or_else(PoisonError::into_inner);
    tell(summary(cycles, from, began.elapsed(), &counts));
    let seeds: Vec<String> = failed.iter().map(u64::to_string).collect();
    tell(match &*seeds {
        [] => "all rules held in every cycle".to_owned(),
        seeds => format!("{} cycles failed; to run one again: --seed {}", seeds.len(), seeds.join(", ")),
    });
    Ok(if failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn summary(cycles: u64, from: u64, took: Duration, counts: &Counts) -> String {
    let outcomes = counts.outcomes();
    let volumes: u64 = outcomes.iter().map(|(_, count)| count).sum();
    let outcomes: Vec<String> = outcomes.iter().map(|(outcome, count)| format!("  {count:>8} {outcome}")).collect();
    let rate = f64::from(u32::try_from(cycles).unwrap_or(u32::MAX)) / took.as_secs_f64().max(f64::MIN_POSITIVE);
    format!(
        "{cycles} cycles from seed {from} in {} s, {rate:.2} per second, with these events:\n{counts}after the last fault, of {volumes} checked volumes:\n{}",
        took.as_secs(),
        outcomes.join("\n")
    )
}

fn new_seeds() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_micros()).unwrap_or(0)
}
