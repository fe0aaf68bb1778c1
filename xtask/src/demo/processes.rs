//! The simulated EC2 and the driver as processes, and their clients.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::control::{Control, Timing};
use ebs_testkit::csi_client::CsiClient;
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::process::{Ending, Process, ProcessSpec};

use super::Places;
use super::state_dir::StateDir;
use crate::simulator::until_ready;

const START_BOUND: Duration = Duration::from_secs(30);
const STOP_BOUND: Duration = Duration::from_secs(30);
/// EC2's usual delays, shorter where a spectator would only wait.
const SHOWN: Timing =
    Timing { create_ms: None, attach_ms: None, detach_ms: Some(2_000), snapshot_ms: Some(6_000), modify_ms: None };
/// An attach takes time, everything else is instantaneous.
const QUICK: Timing =
    Timing { create_ms: Some(0), attach_ms: Some(1_000), detach_ms: Some(0), snapshot_ms: Some(0), modify_ms: Some(0) };

/// The running processes.
#[derive(Debug)]
pub(super) struct Processes {
    dir: PathBuf,
    driver_program: PathBuf,
    timing: Timing,
    simulator: Option<Process>,
    driver: Option<Process>,
    /// The variables of the simulator's env file.
    env: BTreeMap<String, String>,
}

/// The clients, once both processes are ready.
#[derive(Debug, Clone)]
pub(super) struct Clients {
    pub(super) csi: CsiClient,
    pub(super) control: Control,
    /// The node id of this machine.
    pub(super) node: String,
    /// The directory that is used as the kubelet's.
    pub(super) kubelet: PathBuf,
}

impl Processes {
    /// Starts the simulator's process, which is not ready yet.
    pub(super) fn begin(places: &Places, state_dir: &StateDir) -> anyhow::Result<Self> {
        let dir = state_dir.dir().to_owned();
        for name in ["sim", "csi", "kubelet"] {
            fs::create_dir_all(dir.join(name)).with_context(|| format!("make the directory {name}"))?;
        }
        let text = |path: PathBuf| path.into_os_string();
        let args = [
            "--state-dir".into(),
            text(dir.join("sim")),
            "--env-file".into(),
            text(dir.join("sim/env")),
            "--timing".into(),
            "realistic".into(),
            "--devices".into(),
            "loop".into(),
            "--audit-policies".into(),
        ];
        let simulator = Process::spawn(ProcessSpec {
            name: "ebs-sim".to_owned(),
            program: places.simulator(),
            args: args.into(),
            env: BTreeMap::new(),
            log: dir.join("ebs-sim.log"),
        })?;
        state_dir.record(&[&simulator])?;
        let driver_program = places.driver();
        let timing = if places.quick { QUICK } else { SHOWN };
        Ok(Self { dir, driver_program, timing, simulator: Some(simulator), driver: None, env: BTreeMap::new() })
    }

    /// Waits until the simulator has written its env file.
    pub(super) async fn simulator_ready(&mut self) -> anyhow::Result<Control> {
        let simulator = self.simulator.as_mut().context("the simulator is not running")?;
        let file = self.dir.join("sim/env");
        self.env = until_ready(simulator, &file, START_BOUND).await?;
        let control = Control::new(self.env.get("EBS_SIM_CONTROL").context("EBS_SIM_CONTROL in the env file")?);
        control.set_timing(self.timing).await?;
        Ok(control)
    }

    /// Starts the driver and waits until it is ready.
    pub(super) async fn start_driver(&mut self, state_dir: &StateDir) -> anyhow::Result<CsiClient> {
        let socket = self.dir.join("csi/csi.sock");
        let driver = self.driver.insert(Process::spawn(ProcessSpec {
            name: "aws-ebs-csi-driver".to_owned(),
            program: self.driver_program.clone(),
            args: vec!["all".into(), format!("--endpoint=unix://{}", socket.display()).into(), "--v=4".into()],
            env: self.env.clone(),
            log: self.dir.join("driver.log"),
        })?);
        let processes: Vec<&Process> = self.simulator.iter().chain([&*driver]).collect();
        state_dir.record(&processes)?;
        CsiClient::ready(&socket, driver, START_BOUND).await
    }

    /// Returns the clients of both processes, which must be ready.
    pub(super) async fn clients(&self, csi: CsiClient, control: Control) -> anyhow::Result<Clients> {
        let node = csi.node_info().await.context("NodeGetInfo")?.node_id;
        Ok(Clients { csi, control, node, kubelet: self.dir.join("kubelet") })
    }

    /// Kills the driver without warning.
    pub(super) fn kill_driver(&mut self) -> anyhow::Result<()> {
        self.driver.as_mut().context("the driver is not running")?.kill()
    }

    /// Stops both processes, which must end cleanly.
    pub(super) async fn stop(&mut self) -> anyhow::Result<()> {
        for process in [&mut self.driver, &mut self.simulator] {
            let Some(mut running) = process.take() else { continue };
            match running.stop(STOP_BOUND).await? {
                Ending::Ended(status) if status.success() => {}
                other => bail!("process {} did not stop cleanly: {other:?}", running.pid()),
            }
        }
        Ok(())
    }

    /// Ends both processes, cleanly or not, and removes what is left on the machine.
    pub(super) async fn clean_up(&mut self, state_dir: &StateDir) -> anyhow::Result<()> {
        if let Some(mut driver) = self.driver.take() {
            driver.kill()?;
        }
        // Mounts first, so that the simulator can detach its disks.
        let dir = state_dir.dir().to_owned();
        for point in Leftovers::below(&dir)?.mounts.into_iter().rev() {
            Leftovers { mounts: vec![point], ..Leftovers::default() }.clean().await?;
        }
        if let Some(mut simulator) = self.simulator.take() {
            simulator.stop(STOP_BOUND).await?;
        }
        Leftovers::clean_below(&dir).await?;
        let still = Leftovers::below(&dir)?;
        ensure!(still.is_empty(), "still present: {still}");
        Ok(())
    }

    /// Returns the ends of both logs.
    pub(super) fn log_tails(&self, lines: usize) -> String {
        let tail = |name: &str| {
            let path = self.dir.join(name);
            format!("--- {} ends:\n{}", path.display(), ebs_testkit::process::log_tail(&path, lines))
        };
        format!("{}\n{}\n---", tail("ebs-sim.log"), tail("driver.log"))
    }
}

/// Checks that nothing of this run is left on the machine.
pub(super) fn nothing_on_machine(dir: &Path) -> anyhow::Result<()> {
    let left = Leftovers::below(dir)?;
    ensure!(left.is_empty(), "left on the machine: {left}");
    Ok(())
}
