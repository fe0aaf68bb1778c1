//! The driver process. Reads in order: logs, settings checked, build, serve, wait, drain. No logic of its own.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use ebs_driver::config::Mode;
use tokio::runtime::{Builder, Runtime};

mod cli;
mod compose;
mod disks;
mod health;
mod observers;
mod supervise;
mod version;

use cli::{Flags, Refused, Settings};
use supervise::Signals;

/// Something went wrong while running (`decisions.md` D-50).
const FAILED: u8 = 1;

/// The driver was told something that cannot be.
const USAGE: u8 = 2;

/// Worker threads of a node, whatever its number of cores (`decisions.md` D-54).
const NODE_THREADS: usize = 2;

fn main() -> ExitCode {
    let flags = match prepare() {
        Ok(flags) => flags,
        Err(refused) => return ExitCode::from(refused.report()),
    };
    let settings = match flags.check(version::VERSION) {
        Ok(settings) => settings,
        Err(refused) => return ExitCode::from(refused.report()),
    };
    let done = if flags.asks_for_version() { print_version() } else { run(&settings) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "the driver stops because of an error");
            // The variables of the AWS SDK are as much a matter of usage as flags are.
            let is_usage = error.downcast_ref::<ebs_aws::ConfigError>().is_some();
            ExitCode::from(if is_usage { USAGE } else { FAILED })
        }
    }
}

/// Flags read, logging set up.
fn prepare() -> Result<Flags, Refused> {
    let flags = Flags::read(std::env::args_os())?;
    let log = flags.log(std::env::var("RUST_LOG").ok().filter(|directives| !directives.is_empty()))?;
    ebs_telemetry::init(&log).map_err(|error| Refused::new(ebs_driver::status::chain(&error)))?;
    ebs_telemetry::log_panics();
    Ok(flags)
}

fn print_version() -> anyhow::Result<()> {
    std::io::stdout().write_all(version::json().as_bytes()).context("cannot print the version")
}

fn run(settings: &Settings) -> anyhow::Result<()> {
    let runtime = runtime(settings.driver.mode).context("cannot start the runtime")?;
    let result = runtime.block_on(serve(settings));
    // A system call on a hung device must not keep the process alive.
    runtime.shutdown_background();
    result
}

fn runtime(mode: Mode) -> std::io::Result<Runtime> {
    let mut builder = Builder::new_multi_thread();
    if mode == Mode::Node {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        builder.worker_threads(cores.min(NODE_THREADS));
    }
    builder.enable_all().build()
}

async fn serve(settings: &Settings) -> anyhow::Result<()> {
    let mut signals = Signals::listen()?;
    tracing::info!(
        version = version::VERSION,
        mode = %settings.driver.mode,
        endpoint = %settings.driver.endpoint,
        "starting; no Kubernetes client in this version: start-up taints, node labels and metadata of the Node are off"
    );
    let driver = tokio::select! {
        driver = compose::build(settings) => driver?,
        signal = signals.next() => {
            tracing::info!(signal, "stopped before it was serving");
            return Ok(());
        }
    };
    supervise::run(driver, signals, settings.shutdown_timeout).await
}
