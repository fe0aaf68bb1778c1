//! The node-driver-registrar. It registers a CSI driver with the kubelet of its node, on Linux and Windows.
//! It gets the driver's name from the driver that runs beside it, and serves the kubelet's plugin registration on a
//! socket in the directory that the kubelet watches. It makes no other calls, needs no permissions, and stores nothing.

use std::io::Write;
use std::process::ExitCode;

mod address;
mod channel;
mod cli;
mod diagnostics;
mod driver;
mod driver_name;
mod health;
mod life;
mod local;
mod platform;
mod registration;
mod server;
mod socket_file;
mod stream;
mod version;

use component_base::logs;
use component_base::signals::Signals;

use cli::{Job, Refused, Settings};

const FAILED: u8 = 1;

fn main() -> ExitCode {
    let job = match prepare() {
        Ok(job) => job,
        Err(refused) => return ExitCode::from(report(&refused)),
    };
    match job {
        Job::Version => tell(&version::text()),
        Job::Help => tell(&cli::usage()),
        // Earlier releases checked a file that the registrar wrote. `/healthz` replaces this check.
        Job::Probe => ExitCode::SUCCESS,
        Job::Register(settings) => run(&settings),
    }
}

fn prepare() -> Result<Job, Refused> {
    let (job, log, notes) = cli::read(std::env::args_os().skip(1))?;
    if let Job::Register(_) = job {
        // `init` fails only if the process already has a logger.
        drop(logs::init(&log, is_ours));
        logs::log_panics();
        for note in notes {
            tracing::warn!("{note}");
        }
    }
    Ok(job)
}

fn is_ours(target: &str) -> bool {
    ["csi_node_driver_registrar", "component_base", "grpc_authority"].iter().any(|name| target.starts_with(name))
}

/// Prints the error and returns the exit code. If standard error is closed, the message is lost.
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
        // Do not wait for threads: one that waits for a connection would keep the process running.
        runtime.shutdown_background();
        ended
    });
    match ended.and_then(|ended| ended) {
        Ok(Ok(())) => ExitCode::SUCCESS,
        Ok(Err(error)) => {
            tracing::error!(error = &error as &dyn std::error::Error, "registrar failed");
            ExitCode::from(FAILED)
        }
        Err(error) => {
            tracing::error!(%error, "registrar failed to start");
            ExitCode::from(FAILED)
        }
    }
}
