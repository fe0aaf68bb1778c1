//! The driver process. Reads in order: logs, settings checked, build, serve, wait, drain. No logic of its own. The labeler and the
//! pre-stop hook are other modes of the same program, and serve no CSI.
//!
//! A library, so that a program of tests can put another machine below the node service of Windows ([`System`]).

use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use ebs_telemetry::Traces;
use process_signals::Signals;
use tokio::runtime::{Builder, Runtime};

mod cli;
mod compose;
#[cfg(target_os = "linux")]
mod disks;
mod environment;
mod fips;
mod health;
mod kubernetes;
mod labeler;
mod machine;
mod node;
mod observers;
mod pre_stop_hook;
mod supervise;
mod version;

use cli::{Flags, Job, Refused, Settings};

pub use node::System;

/// Something went wrong while running.
const FAILED: u8 = 1;

/// The driver was told something that cannot be.
const USAGE: u8 = 2;

/// Worker threads, whatever the number of cores: each brings buffers and an arena of the allocator with it, and none of the modes
/// has work for more.
const THREADS: usize = 2;

/// How long the stop waits for the collector of traces to take the last ones, after the drain.
const LAST_TRACES: Duration = Duration::from_secs(5);

/// Runs the program to its end; the arguments begin with its name.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>, system: System) -> ExitCode {
    let (flags, traces) = match prepare(arguments) {
        Ok(prepared) => prepared,
        Err(refused) => return ExitCode::from(refused.report()),
    };
    let job = match flags.check(version::VERSION) {
        Ok(job) => job,
        Err(refused) => return ExitCode::from(refused.report()),
    };
    let done = if flags.asks_for_version() { print_version() } else { run(&job, traces, system) };
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

/// Flags read, logging set up, and what will see the spans if traces are wanted.
fn prepare(arguments: impl IntoIterator<Item = OsString>) -> Result<(Flags, Option<Traces>), Refused> {
    let flags = Flags::read(arguments)?;
    fips::check(std::env::var("GODEBUG").ok().as_deref()).map_err(Refused::new)?;
    let traces = flags.traces().then(Traces::default);
    let log = flags.log(std::env::var("RUST_LOG").ok().filter(|directives| !directives.is_empty()))?;
    ebs_telemetry::init(&log, traces.as_ref()).map_err(|error| Refused::new(ebs_driver::status::chain(&error)))?;
    ebs_telemetry::log_panics();
    Ok((flags, traces))
}

fn print_version() -> anyhow::Result<()> {
    std::io::stdout().write_all(version::json().as_bytes()).context("cannot print the version")
}

fn run(job: &Job, traces: Option<Traces>, system: System) -> anyhow::Result<()> {
    let runtime = runtime(job).context("cannot start the runtime")?;
    let result = runtime.block_on(traced(job, traces, system));
    // A system call on a hung device must not keep the process alive.
    runtime.shutdown_background();
    result
}

/// The hook watches one thing and ends: it needs no threads of its own.
fn runtime(job: &Job) -> std::io::Result<Runtime> {
    let mut builder = match job {
        Job::Serve(_) | Job::LabelNodes(_) => Builder::new_multi_thread(),
        Job::AwaitDetachments(_) => Builder::new_current_thread(),
    };
    // On Windows a thread that has asked WMI keeps its connections: it stays, and gives them back before it ends.
    #[cfg(windows)]
    builder.thread_keep_alive(std::time::Duration::from_secs(60 * 60)).on_thread_stop(winstorage::real::disconnect);
    builder.worker_threads(workers(std::thread::available_parallelism())).enable_all().build()
}

fn workers(cores: std::io::Result<NonZeroUsize>) -> usize {
    cores.map_or(1, usize::from).min(THREADS)
}

/// Does the job, and exports its traces if they are wanted, to the last one.
async fn traced(job: &Job, traces: Option<Traces>, system: System) -> anyhow::Result<()> {
    let listen = || Signals::listen().context("cannot listen for signals");
    let signals = listen()?;
    let export = traces.map(|traces| traces.start(version::VERSION)).transpose()?.flatten();
    let result = perform(job, signals, system).await;
    if let Some(export) = export {
        let mut again = listen()?;
        tokio::select! {
            () = export.finish(LAST_TRACES) => {}
            signal = again.next() => tracing::warn!(signal, "the last traces are lost: told to end at once"),
        }
    }
    result
}

async fn perform(job: &Job, signals: Signals, system: System) -> anyhow::Result<()> {
    match job {
        Job::Serve(settings) => serve(settings, signals, system).await,
        Job::LabelNodes(settings) => labeler::run(settings, signals).await,
        Job::AwaitDetachments(settings) => pre_stop_hook::run(settings, signals).await,
    }
}

async fn serve(settings: &Settings, signals: Signals, system: System) -> anyhow::Result<()> {
    tracing::info!(
        version = version::VERSION,
        mode = %settings.driver.mode,
        endpoint = %settings.driver.endpoint,
        "starting"
    );
    let (front, foundation) = compose::open(settings).await?;
    let of_building = settings.clone();
    let building = async move { compose::build(&of_building, foundation, system).await };
    Box::pin(supervise::run(front, building, signals, settings.shutdown_timeout)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two worker threads at most, however many cores a machine has.
    #[test]
    fn there_are_two_worker_threads_at_most_however_many_cores() {
        for (cores, threads) in [(1, 1), (2, 2), (3, 2), (192, 2)] {
            assert_eq!(workers(Ok(NonZeroUsize::new(cores).unwrap())), threads);
        }
        assert_eq!(workers(Err(std::io::ErrorKind::Unsupported.into())), 1);
    }
}
