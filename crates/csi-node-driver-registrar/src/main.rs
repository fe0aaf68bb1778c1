//! The node-driver-registrar: makes a CSI driver known to the kubelet of its node, on Linux and Windows.
//!
//! It asks the driver beside it for its name and serves the kubelet's plugin registration on a socket in the directory that the
//! kubelet watches. It calls nobody else, has no rights, and keeps nothing.

use std::io::Write;
use std::process::ExitCode;

mod address;
mod channel;
mod cli;
mod diagnostics;
mod driver;
mod driver_name;
mod health;
mod http_pages;
mod life;
mod local;
mod platform;
mod registration;
mod server;
mod socket_file;
mod stream;
mod version;

use cli::{Job, Refused, Settings};
use process_signals::Signals;

/// Something went wrong while running.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let job = match prepare() {
        Ok(job) => job,
        Err(refused) => return ExitCode::from(report(&refused)),
    };
    match job {
        Job::Version => tell(&version::text()),
        Job::Help => tell(&cli::usage()),
        // Earlier releases looked for a file that the registrar wrote; `/healthz` has taken the place of that.
        Job::Probe => ExitCode::SUCCESS,
        Job::Register(settings) => run(&settings),
    }
}

/// Flags read, and logging set up where there is something to log.
fn prepare() -> Result<Job, Refused> {
    let (job, log, notes) = cli::read(std::env::args_os().skip(1))?;
    if let Job::Register(_) = job {
        // A process has one.
        drop(klog::init(&log, is_ours));
        klog::log_panics();
        for note in notes {
            tracing::warn!("{note}");
        }
    }
    Ok(job)
}

fn is_ours(target: &str) -> bool {
    ["csi_node_driver_registrar", "klog", "grpc_authority"].iter().any(|name| target.starts_with(name))
}

/// Says what is wrong; gives the exit code. Nobody is left to be told when standard error is closed.
fn report(refused: &Refused) -> u8 {
    drop(writeln!(std::io::stderr(), "{}: {refused}\n\nFor all flags: {} --help", version::NAME, version::NAME));
    refused.exit_code()
}

fn tell(text: &str) -> ExitCode {
    match writeln!(std::io::stdout(), "{}", text.trim_end()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::from(FAILED),
    }
}

fn run(settings: &Settings) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ended = runtime.map(|runtime| {
        let ended = runtime.block_on(async {
            tracing::info!(version = version::text(), "starting");
            Ok(life::run(settings, Signals::listen()?).await)
        });
        // A thread that waits for a connection must not keep the process alive.
        runtime.shutdown_background();
        ended
    });
    match ended.and_then(|ended| ended) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the registrar ends because of an error");
            ExitCode::from(FAILED)
        }
        Err(error) => {
            tracing::error!(%error, "the registrar cannot start");
            ExitCode::from(FAILED)
        }
    }
}
