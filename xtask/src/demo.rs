//! `cargo xtask demo`: the lifecycle of a volume from creation to deletion, through the driver's CSI socket, with the
//! simulated EC2 and real block devices.
//!
//! It starts two processes, `ebs-sim` and the driver ([`processes`]). The volume's lifecycle ([`volume_life`]) calls
//! the driver as Kubernetes does, and stops at the first unexpected state. The report ([`report`]) prints a line per
//! step. All files are in a directory of the run, below the state directory. The next run finds what a killed one has
//! left by that directory and the records in it, and removes it first.

mod processes;
mod report;
mod volume_life;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;

use anyhow::{Context, anyhow, ensure};
use component_base::signals::Signals;
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::run_dir::RunDir;

use crate::programs::Places;
use processes::Processes;
use report::{Report, say};

/// The longest path of a unix socket.
const SOCKET_BYTES: usize = 107;

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

/// Runs the demo from preparation to cleanup.
///
/// # Errors
/// A step failed. Everything is cleaned up then.
pub(crate) fn run(args: DemoArgs) -> anyhow::Result<()> {
    ensure!(
        rustix::process::geteuid().is_root(),
        "run the demo: loop devices and mounts need root; use `make demo`, which reports all that is missing"
    );
    let places = Places::new("demo", args.state_dir, args.bin_dir)?;
    let dir = claim(&places.dir)?;
    // The simulator stays in the machine's own mount namespace, so that the kernel reports its files with their real
    // paths.
    let processes = Processes::begin(&places, dir, args.quick)?;
    let (sender, receiver) = mpsc::channel();
    // The driver and its mounts are in a private namespace, so that the mounts vanish with its last process.
    in_mount_namespace(move || async move {
        // The receiver waits.
        let _ = sender.send(perform(processes).await);
    });
    receiver.recv().context("the demo returned no result")?
}

/// Removes what killed runs have left below `parent`, and returns a directory for this run.
fn claim(parent: &Path) -> anyhow::Result<RunDir> {
    fs::create_dir_all(parent).with_context(|| format!("make the state directory {}", parent.display()))?;
    for swept in RunDir::sweep(parent) {
        if let Some(trouble) = swept.trouble {
            return Err(trouble.context(format!("remove leftovers in {}; stop their users", swept.dir.display())));
        }
        if !swept.removed.is_empty() {
            say(&format!("removed leftovers of a previous run: {}", swept.removed.join(", ")));
        }
    }
    let dir = RunDir::claim_in(parent).context("claim a directory for this run")?;
    ensure!(
        processes::socket(dir.path()).as_os_str().len() <= SOCKET_BYTES,
        "use {}: the path of a socket in it exceeds {SOCKET_BYTES} bytes; choose a shorter EBS_DEMO_DIR",
        dir.path().display()
    );
    Ok(dir)
}

async fn perform(mut processes: Processes) -> anyhow::Result<()> {
    let mut report = Report::new();
    let ended = tokio::select! {
        ended = Box::pin(volume_life::run(&mut processes, &mut report)) => ended,
        interrupted = interruption() => Err(interrupted),
    };
    let Err(error) = ended else {
        report.table();
        return Ok(());
    };
    report.broken();
    say(&processes.log_tails(25));
    say("cleaning up");
    let cleaned = processes.clean_up().await;
    cleaned.with_context(|| format!("cleaning up after error: {error:#}"))?;
    say(&format!("cleaned up; nothing is left. The logs stay in {}", processes.dir().display()));
    Err(error)
}

async fn interruption() -> anyhow::Error {
    match Signals::listen() {
        Ok(mut signals) => anyhow!("interrupted ({})", signals.next().await),
        Err(_) => anyhow!("listening for signals failed"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directory_too_deep_for_a_socket_is_rejected_with_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("thesis.tex"), "years").unwrap();
        drop(claim(dir.path()).unwrap());
        let error = claim(&dir.path().join("x".repeat(120))).unwrap_err().to_string();
        assert!(error.contains("107") && error.contains("shorter"), "{error}");
        assert!(dir.path().join("thesis.tex").exists(), "files of others stay");
    }
}
