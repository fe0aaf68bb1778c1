//! The driver process: sets up logging, checks settings, builds the services, serves until a signal and drains
//! operations. It is a library so that a test program can replace the machine of the Windows node service ([`System`]).

use std::ffi::OsString;
use std::io::Write;
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use component_base::signals::Signals;
use ebs_telemetry::Traces;
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
mod liveness;
mod machine;
mod node;
mod observers;
mod pre_stop_hook;
mod supervise;
mod version;

use cli::{DriverSettings, Flags, Job, Refused};

pub use node::System;

const FAILED: u8 = 1;

/// The exit code of invalid flags or variables.
const USAGE: u8 = 2;

/// Maximum number of worker threads. Each thread costs buffers and an allocator arena, and no mode has work for more.
const THREADS: usize = 2;

/// How long shutdown waits, after the drain, for the trace collector to accept the last traces.
const LAST_TRACES: Duration = Duration::from_secs(5);

/// Runs the program to its end. The first argument is the program's name.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>, system: System) -> ExitCode {
    let (flags, job, traces) = match prepare(arguments) {
        Ok(prepared) => prepared,
        Err(refused) => return ExitCode::from(refused.report()),
    };
    let done = if flags.asks_for_version() { print_version() } else { run(&job, traces, system) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(error = format!("{error:#}"), "driver failed");
            // Treat invalid variables of the AWS SDK as usage errors, like invalid flags.
            let is_usage = error.downcast_ref::<ebs_aws::ConfigError>().is_some();
            ExitCode::from(if is_usage { USAGE } else { FAILED })
        }
    }
}

fn prepare(arguments: impl IntoIterator<Item = OsString>) -> Result<(Flags, Job, Option<Traces>), Refused> {
    let flags = Flags::read(arguments)?;
    fips::check(std::env::var("GODEBUG").ok().as_deref()).map_err(Refused::new)?;
    let traces = flags.traces().then(Traces::default);
    let log = flags.log(std::env::var("RUST_LOG").ok().filter(|directives| !directives.is_empty()))?;
    ebs_telemetry::init(&log, traces.as_ref()).map_err(|error| Refused::new(ebs_driver::status::chain(&error)))?;
    component_base::logs::log_panics();
    let job = flags.check()?;
    Ok((flags, job, traces))
}

fn print_version() -> anyhow::Result<()> {
    std::io::stdout().write_all(version::json().as_bytes()).context("print the version")
}

fn run(job: &Job, traces: Option<Traces>, system: System) -> anyhow::Result<()> {
    let runtime = runtime(job).context("start the runtime")?;
    let result = runtime.block_on(traced(job, traces, system));
    // Do not wait for blocking threads: a system call on a hung device must not keep the process alive.
    runtime.shutdown_background();
    result
}

/// Creates the runtime. The pre-stop hook waits for one event and exits, so it needs no worker threads.
fn runtime(job: &Job) -> std::io::Result<Runtime> {
    let mut builder = match job {
        Job::Serve(_) | Job::LabelNodes(_) => Builder::new_multi_thread(),
        Job::AwaitDetachments(_) => Builder::new_current_thread(),
    };
    // A thread that has queried WMI holds connections: keep it alive for reuse, and disconnect before it ends.
    #[cfg(windows)]
    builder.thread_keep_alive(std::time::Duration::from_secs(60 * 60)).on_thread_stop(winstorage::real::disconnect);
    builder.worker_threads(workers(std::thread::available_parallelism())).enable_all().build()
}

fn workers(cores: std::io::Result<NonZeroUsize>) -> usize {
    cores.map_or(1, usize::from).min(THREADS)
}

/// Runs the job. If traces are enabled, exports them, and finally waits until the last traces are exported.
async fn traced(job: &Job, traces: Option<Traces>, system: System) -> anyhow::Result<()> {
    let listen = || Signals::listen().context("listen for signals");
    let signals = listen()?;
    let export = traces.map(|traces| traces.start(version::VERSION)).transpose()?.flatten();
    let result = perform(job, signals, system).await;
    if let Some(export) = export {
        let mut again = listen()?;
        tokio::select! {
            () = export.finish(LAST_TRACES) => {}
            signal = again.next() => tracing::warn!(signal, "stopping at once after another signal: the last traces are lost"),
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

async fn serve(settings: &DriverSettings, signals: Signals, system: System) -> anyhow::Result<()> {
    tracing::info!(version = version::VERSION, mode = %settings.mode, endpoint = %settings.endpoint, "starting");
    let (listener, startup) = compose::open(settings).await?;
    let cloned = settings.clone();
    let building = async move { startup.build(&cloned, system).await };
    Box::pin(supervise::run(listener, building, signals, settings.common.shutdown_timeout)).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtime_has_at_most_two_worker_threads() {
        for (cores, threads) in [(1, 1), (2, 2), (3, 2), (192, 2)] {
            assert_eq!(workers(Ok(NonZeroUsize::new(cores).unwrap())), threads);
        }
        assert_eq!(workers(Err(std::io::ErrorKind::Unsupported.into())), 1);
    }
}
