//! The participants of a case: a simulator and a driver, and how their processes end.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::control::{Control, Ledger, Timing};
use ebs_testkit::csi_client::CsiClient;
use ebs_testkit::process::Process;
use tokio::time::{Instant, sleep};

use super::case::Case;
use super::figures;
use super::life::{self, Rpc, Site};
use super::process_stat::{self, Usage};
use super::report::Outcome;
use crate::programs::{Env, Places, Simulator, control_of, env_of_file, spawn_driver, variable};

pub(super) const ZONES: [&str; 2] = ["us-west-2a", "us-west-2b"];
/// This type can attach many volumes.
pub(super) const INSTANCE_TYPE: &str = "m7i.48xlarge";
/// Time limit for a process to start, and to end.
const BOUND: Duration = Duration::from_secs(30);
/// Time limit of a case: all lives, with the longest waits for tokens.
pub(super) const CASE_BOUND: Duration = Duration::from_hours(2);
/// How long the driver may still make calls of its own after the last volume lifecycle.
pub(super) const QUIET: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(super) enum Subject {
    /// Our driver, started here with a separate simulator.
    Ours(Places),
    /// A running driver that uses the simulator with this env file.
    Other { socket: PathBuf, sim_env: PathBuf },
}

/// A driver with its simulator. Dropping it ends the processes that the bench started.
#[derive(Debug)]
pub(super) struct Running {
    pub(super) client: CsiClient,
    pub(super) control: Control,
    pub(super) driver_pid: u32,
    /// `None` for a simulator that the bench did not start.
    pub(super) simulator_pid: Option<u32>,
    pub(super) env: Env,
    started: Vec<Process>,
}

impl Running {
    /// Ends the driver first, so that none of its calls fails for lack of a simulator.
    pub(super) async fn stop(mut self) -> anyhow::Result<()> {
        for mut process in self.started.drain(..).rev() {
            process.stop(BOUND).await?;
        }
        Ok(())
    }

    /// Returns the simulator's two nodes, which are in different zones.
    pub(super) fn nodes(&self) -> anyhow::Result<Vec<(String, &'static str)>> {
        let first = variable(&self.env, "EBS_SIM_INSTANCE_ID")?;
        Ok(vec![(first, ZONES[0]), (variable(&self.env, "EBS_SIM_SECOND_INSTANCE_ID")?, ZONES[1])])
    }

    /// Gives EC2's transitions their usual times, without variation.
    pub(super) async fn set_exact_timing(&self) -> anyhow::Result<()> {
        let timing = Timing {
            create_ms: Some(Rpc::Create.transition_ms()),
            attach_ms: Some(Rpc::Publish.transition_ms()),
            detach_ms: Some(Rpc::Unpublish.transition_ms()),
            ..Timing::default()
        };
        self.control.set_timing(timing).await
    }
}

pub(super) async fn play(case: Case, subject: Subject) -> anyhow::Result<Outcome> {
    let (name, running) = match subject {
        Subject::Ours(places) => ("ours", start(&case.slug(), &places).await?),
        Subject::Other { socket, sim_env } => ("other", join(&socket, &sim_env).await?),
    };
    running.set_exact_timing().await?;
    if case.eaten > 0.0 {
        running.control.compete(case.eaten).await?;
    }
    if let Some((from, until)) = case.storm {
        running.control.throttle_all(from, until).await?;
    }
    let played = perform(&case, name, &running).await;
    if case.eaten > 0.0 || case.storm.is_some() {
        running.control.no_faults().await?;
    }
    running.stop().await?;
    played.with_context(|| format!("bench case {} of {name}", case.slug()))
}

async fn perform(case: &Case, subject: &'static str, running: &Running) -> anyhow::Result<Outcome> {
    let from = running.control.position().await?;
    let before = Usage::of(running.driver_pid)?;
    let began = Instant::now();
    let site = Site::new(&running.client, "pvc-bench", running.nodes()?, case.workers);
    let samples = life::all(site, &case.phases, CASE_BOUND).await?;
    let seconds = began.elapsed().as_secs_f64();
    sleep(QUIET).await;
    let after = Usage::of(running.driver_pid)?;
    let ledger = whole_ledger(&running.control, from).await?;
    nothing_left(&running.control).await?;
    Ok(Outcome {
        case: case.slug(),
        subject,
        conditions: case.clone(),
        seconds,
        phases: figures::by_phase(case, &samples, &ledger.calls),
        traffic: figures::traffic(&ledger.calls, case.lives()),
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        peak_memory_mib: after.peak,
    })
}

/// Starts our driver with a simulator of its own. Their state and logs are in the subdirectory `name`.
pub(super) async fn start(name: &str, places: &Places) -> anyhow::Result<Running> {
    let dir = places.dir.join(name);
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    let [zone, second_zone] = ZONES;
    let args = [
        "--timing=realistic",
        "--devices=none",
        &format!("--instance-type={INSTANCE_TYPE}"),
        &format!("--zone={zone}"),
        &format!("--second-zone={second_zone}"),
    ];
    fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
    let mut simulator = Simulator::spawn(&places.simulator(), &dir.join("sim"), &args, dir.join("ebs-sim.log"))?;
    let env = simulator.ready(BOUND).await?;
    let socket = dir.join("csi.sock");
    let mut driver = spawn_driver(&places.driver(), &["controller"], &socket, &env, dir.join("driver.log"))?;
    let client = CsiClient::ready(&socket, &mut driver, BOUND).await?;
    let (control, driver_pid, simulator_pid) = (control_of(&env)?, driver.pid(), Some(simulator.process.pid()));
    Ok(Running { client, control, driver_pid, simulator_pid, env, started: vec![simulator.process, driver] })
}

async fn join(socket: &Path, sim_env: &Path) -> anyhow::Result<Running> {
    let env = env_of_file(sim_env)?;
    let client = CsiClient::lazy(socket);
    ensure!(client.probe().await.context("Probe of the other driver")?, "other driver is not ready");
    let driver_pid = process_stat::listener(socket)?;
    Ok(Running { client, control: control_of(&env)?, driver_pid, simulator_pid: None, env, started: Vec::new() })
}

pub(super) async fn whole_ledger(control: &Control, from: u64) -> anyhow::Result<Ledger> {
    let ledger = control.ledger(from).await?;
    let expected = ledger.next - from;
    let got = u64::try_from(ledger.calls.len()).context("a number of calls")?;
    ensure!(got == expected, "the simulator recorded {got} of {expected} calls");
    Ok(ledger)
}

/// Checks that no volume that a driver created is left.
async fn nothing_left(control: &Control) -> anyhow::Result<()> {
    let state = control.state().await?;
    let left: Vec<_> = state.live_volumes().into_iter().filter(|v| v.tags.contains_key("CSIVolumeName")).collect();
    ensure!(left.is_empty(), "{} volumes are left, first {:?}", left.len(), left.first());
    Ok(())
}
