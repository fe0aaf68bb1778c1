//! `cargo xtask demo`: the lifecycle of a volume from creation to deletion, through the driver's CSI socket, with the
//! simulated EC2 and real block devices.
//!
//! It starts and records two processes, `ebs-sim` and the driver ([`processes`]). The volume's lifecycle
//! ([`volume_life`]) calls the driver as Kubernetes does, and stops at the first unexpected state. The report
//! ([`report`]) prints a line per step. All files are below one state directory, which one run at a time holds
//! ([`state_dir`]). The next run finds what a killed one has left by that directory and the records in it, and removes
//! it first.

mod preflight;
mod processes;
mod report;
mod state_dir;
mod volume_life;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, anyhow};
use component_base::signals::Signals;
use ebs_testkit::mount_namespace::in_mount_namespace;

use processes::Processes;
use report::{Report, say};
use state_dir::StateDir;

/// The arguments of the demo.
#[derive(Debug, clap::Args)]
pub(crate) struct DemoArgs {
    /// Directory for state, logs and mounts [default: demo in cargo's target directory]
    #[arg(long, env = "EBS_DEMO_DIR", value_name = "DIR")]
    state_dir: Option<PathBuf>,

    /// Directory with the programs ebs-sim and aws-ebs-csi-driver [default: this program's directory]
    #[arg(long, value_name = "DIR")]
    bin_dir: Option<PathBuf>,

    /// Shorten EC2's delays, for tests of the demo
    #[arg(long)]
    quick: bool,
}

/// The paths of the demo.
#[derive(Debug, Clone)]
struct Places {
    state_dir: PathBuf,
    bin_dir: PathBuf,
    quick: bool,
}

impl Places {
    fn of(args: DemoArgs) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("path of this program")?;
        let beside = own.parent().context("the directory of this program")?;
        let target = beside.parent().unwrap_or(beside);
        let state_dir = args.state_dir.unwrap_or_else(|| target.join("demo"));
        let state_dir = std::path::absolute(state_dir).context("resolve the state directory")?;
        Ok(Self { state_dir, bin_dir: args.bin_dir.unwrap_or_else(|| beside.to_owned()), quick: args.quick })
    }

    fn simulator(&self) -> PathBuf {
        self.bin_dir.join("ebs-sim")
    }

    fn driver(&self) -> PathBuf {
        self.bin_dir.join("aws-ebs-csi-driver")
    }
}

/// Runs the demo from preparation to cleanup.
///
/// # Errors
/// A requirement is missing on this machine, or a step failed. Everything is cleaned up then.
pub(crate) fn run(args: DemoArgs) -> anyhow::Result<()> {
    let places = Places::of(args)?;
    preflight::check(&places)?;
    let state_dir = StateDir::take(&places.state_dir)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("a runtime")?;
    for line in runtime.block_on(state_dir.clean())? {
        say(&format!("removed leftovers of a previous run: {line}"));
    }
    // The simulator stays in the machine's own mount namespace, so that the kernel reports its files with their real
    // paths.
    let processes = Processes::begin(&places, &state_dir)?;
    let outcome = Arc::new(Mutex::new(None));
    let result = Arc::clone(&outcome);
    // The driver and its mounts are in a private namespace, so that the mounts vanish with its last process.
    in_mount_namespace(move || async move {
        let ended = perform(processes, state_dir).await;
        *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
    });
    let ended = outcome.lock().unwrap_or_else(PoisonError::into_inner).take();
    ended.context("the demo returned no result")?
}

async fn perform(mut processes: Processes, state_dir: StateDir) -> anyhow::Result<()> {
    let mut report = Report::new();
    let ended = tokio::select! {
        ended = Box::pin(volume_life::run(&mut processes, &state_dir, &mut report)) => ended,
        interrupted = interruption() => Err(interrupted),
    };
    match ended {
        Ok(()) => {
            report.table();
            Ok(())
        }
        Err(error) => {
            report.broken();
            say(&processes.log_tails(25));
            say("cleaning up");
            let cleaned = processes.clean_up(&state_dir).await;
            cleaned.with_context(|| format!("cleaning up after error: {error:#}"))?;
            say(&format!("cleaned up; nothing is left. The logs stay in {}", state_dir.dir().display()));
            Err(error)
        }
    }
}

async fn interruption() -> anyhow::Error {
    match Signals::listen() {
        Ok(mut signals) => anyhow!("interrupted ({})", signals.next().await),
        Err(_) => anyhow!("listening for signals failed"),
    }
}
