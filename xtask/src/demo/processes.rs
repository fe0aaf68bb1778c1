//! The simulated EC2 and the driver as processes, and their clients.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::control::{Control, Timing};
use ebs_testkit::csi_client::CsiClient;
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::process::{Ending, Process, log_tail};
use ebs_testkit::run_dir::RunDir;

use crate::programs::{Env, Places, Simulator, control_of, spawn_driver};

/// The time limit of the start and of the end of a process.
const BOUND: Duration = Duration::from_secs(30);
/// EC2's usual delays, shorter where a spectator would only wait.
const SHOWN: Timing =
    Timing { create_ms: None, attach_ms: None, detach_ms: Some(2_000), snapshot_ms: Some(6_000), modify_ms: None };
/// An attach takes time, everything else is instantaneous.
const QUICK: Timing =
    Timing { create_ms: Some(0), attach_ms: Some(1_000), detach_ms: Some(0), snapshot_ms: Some(0), modify_ms: Some(0) };

/// The running processes.
#[derive(Debug)]
pub(super) struct Processes {
    driver_program: PathBuf,
    timing: Timing,
    simulator: Option<Simulator>,
    driver: Option<Process>,
    env: Env,
    run: RunDir,
}

/// Returns the driver's socket in the directory of a run.
pub(super) fn socket(dir: &Path) -> PathBuf {
    dir.join("csi.sock")
}

impl Processes {
    /// Starts the simulator's process, which is not ready yet.
    pub(super) fn begin(places: &Places, run: RunDir, quick: bool) -> anyhow::Result<Self> {
        let dir = run.path();
        fs::create_dir_all(dir.join("kubelet")).context("make the directory kubelet")?;
        let args = ["--timing=realistic", "--devices=loop", "--audit-policies"];
        let simulator = Simulator::spawn(&places.simulator(), &dir.join("sim"), &args, dir.join("ebs-sim.log"))?;
        run.record_process(&simulator.process.record()?).context("record the simulator")?;
        let timing = if quick { QUICK } else { SHOWN };
        let driver_program = places.driver();
        Ok(Self { driver_program, timing, simulator: Some(simulator), driver: None, env: Env::new(), run })
    }

    /// Returns the directory of this run.
    pub(super) fn dir(&self) -> &Path {
        self.run.path()
    }

    /// Returns the directory that is used as the kubelet's.
    pub(super) fn kubelet(&self) -> PathBuf {
        self.dir().join("kubelet")
    }

    /// Waits until the simulator is ready.
    pub(super) async fn simulator_ready(&mut self) -> anyhow::Result<Control> {
        self.env = self.simulator.as_mut().context("the simulator is not running")?.ready(BOUND).await?;
        let control = control_of(&self.env)?;
        control.set_timing(self.timing).await?;
        Ok(control)
    }

    /// Starts the driver and waits until it is ready.
    pub(super) async fn start_driver(&mut self) -> anyhow::Result<CsiClient> {
        let (socket, log) = (socket(self.dir()), self.dir().join("driver.log"));
        let driver = spawn_driver(&self.driver_program, &["all", "--v=4"], &socket, &self.env, log)?;
        let driver = self.driver.insert(driver);
        self.run.record_process(&driver.record()?).context("record the driver")?;
        CsiClient::ready(&socket, driver, BOUND).await
    }

    /// Kills the driver without warning.
    pub(super) fn kill_driver(&mut self) -> anyhow::Result<()> {
        self.driver.as_mut().context("the driver is not running")?.kill()
    }

    /// Stops both processes, which must end cleanly and leave nothing on the machine.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        for mut running in self.driver.take().into_iter().chain(self.simulator.take().map(|sim| sim.process)) {
            match running.stop(BOUND).await? {
                Ending::Ended(status) if status.success() => {}
                other => bail!("process {} did not stop cleanly: {other:?}", running.pid()),
            }
        }
        self.nothing_on_machine()
    }

    /// Ends both processes, cleanly or not, and removes what is left on the machine.
    pub(super) async fn clean_up(&mut self) -> anyhow::Result<()> {
        if let Some(mut driver) = self.driver.take() {
            driver.kill()?;
        }
        // Mounts first, so that the simulator can detach its disks.
        let mounts = Leftovers::below(self.dir())?.mounts;
        Leftovers { mounts, ..Leftovers::default() }.clean().await?;
        if let Some(mut simulator) = self.simulator.take() {
            simulator.process.stop(BOUND).await?;
        }
        Leftovers::clean_below(self.dir()).await?;
        self.nothing_on_machine()
    }

    /// Checks that nothing of this run is left on the machine.
    pub(super) fn nothing_on_machine(&self) -> anyhow::Result<()> {
        let left = Leftovers::below(self.dir())?;
        ensure!(left.is_empty(), "left on the machine: {left}");
        Ok(())
    }

    /// Returns the ends of both logs.
    pub(super) fn log_tails(&self, lines: usize) -> String {
        let tail = |name: &str| {
            let path = self.dir().join(name);
            format!("--- {} ends:\n{}\n", path.display(), log_tail(&path, lines))
        };
        format!("{}{}---", tail("ebs-sim.log"), tail("driver.log"))
    }
}
