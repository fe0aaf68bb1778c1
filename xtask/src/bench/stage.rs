//! The participants of a case: a simulator, a driver, and how their processes end.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_testkit::control::{Control, Ledger, Timing};
use ebs_testkit::csi_client::CsiClient;
use ebs_testkit::process::{Process, ProcessSpec};
use tokio::sync::Semaphore;
use tokio::time::{Instant, sleep};

use super::case::Case;
use super::figures::{self, Transitions};
use super::life::{self, Node, Site};
use super::process_stat::{self, Usage};
use super::report::Outcome;
use crate::simulator::{env_of_file, until_ready};

const START_BOUND: Duration = Duration::from_secs(30);
const STOP_BOUND: Duration = Duration::from_secs(30);
/// The time limit of a case: all lives, with the longest waits for tokens.
const CASE_BOUND: Duration = Duration::from_hours(2);
/// EC2's usual delays for small volumes.
const TRANSITIONS: Timing = Timing {
    create_ms: Some(2_000),
    attach_ms: Some(2_500),
    detach_ms: Some(4_000),
    snapshot_ms: None,
    modify_ms: None,
};
const IN_SECONDS: Transitions = Transitions { create: 2.0, attach: 2.5, detach: 4.0 };
/// An instance type for many volumes, and how many the scheduler would assign to it.
const INSTANCE_TYPE: &str = "m7i.48xlarge";
const ROOM: usize = 120;
/// How long the driver's own last calls may take after the last life.
const QUIET: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(super) struct Places {
    dir: PathBuf,
    bin_dir: PathBuf,
}

impl Places {
    pub(super) fn of(dir: Option<PathBuf>, bin_dir: Option<PathBuf>) -> anyhow::Result<Self> {
        let own = std::env::current_exe().context("path of this program")?;
        let beside = own.parent().context("the directory of this program")?;
        let target = beside.parent().unwrap_or(beside);
        let dir = std::path::absolute(dir.unwrap_or_else(|| target.join("bench"))).context("the directory's path")?;
        fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;
        Ok(Self { dir, bin_dir: bin_dir.unwrap_or_else(|| beside.to_owned()) })
    }

    /// Returns the path of a program that is measured or is part of the case.
    pub(super) fn program(&self, name: &str) -> PathBuf {
        self.bin_dir.join(name)
    }

    /// Returns the path of its log.
    pub(super) fn log(&self, name: &str) -> PathBuf {
        self.dir.join(name)
    }

    pub(super) fn results(&self) -> PathBuf {
        self.dir.join("results.json")
    }
}

/// The driver to measure.
#[derive(Debug, Clone)]
pub(super) enum Subject {
    /// Our driver, started here with a separate simulator.
    Ours(Places),
    /// A running driver that uses the simulator of that env file.
    Other { socket: PathBuf, sim_env: PathBuf },
}

/// The processes that were started here. They end on drop.
#[derive(Debug)]
struct Running {
    client: CsiClient,
    control: Control,
    driver_pid: u32,
    env: BTreeMap<String, String>,
    started: Vec<Process>,
}

/// Runs a case.
///
/// # Errors
/// See [`super::run`].
pub(super) async fn play(case: Case, subject: Subject) -> anyhow::Result<Outcome> {
    let name = match &subject {
        Subject::Ours(_) => "ours",
        Subject::Other { .. } => "other",
    };
    let mut running = match subject {
        Subject::Ours(places) => start(&case, &places).await?,
        Subject::Other { socket, sim_env } => join(&socket, &sim_env).await?,
    };
    running.control.set_timing(TRANSITIONS).await?;
    if case.eaten > 0.0 {
        running.control.compete(case.eaten).await?;
    }
    if let Some(storm) = case.storm {
        running.control.throttle_all(storm.from, storm.until).await?;
    }
    let played = perform(&case, name, &running).await;
    if case.eaten > 0.0 || case.storm.is_some() {
        running.control.no_faults().await?;
    }
    // The driver first, so that none of its calls fails without a simulator.
    for mut process in running.started.drain(..).rev() {
        process.stop(STOP_BOUND).await?;
    }
    played.with_context(|| format!("the case {} of {name}", case.slug()))
}

async fn perform(case: &Case, name: &str, running: &Running) -> anyhow::Result<Outcome> {
    let from = running.control.position().await?;
    let before = Usage::of(running.driver_pid)?;
    let began = Instant::now();
    let site = site(case, running, began)?;
    let samples = life::all(site, &case.phases, CASE_BOUND).await?;
    let took = began.elapsed();
    sleep(QUIET).await;
    let after = Usage::of(running.driver_pid)?;
    let ledger = whole_ledger(&running.control, from).await?;
    nothing_left(&running.control).await?;
    Ok(Outcome {
        case: case.slug().to_owned(),
        subject: name.to_owned(),
        conditions: case.clone(),
        transitions: IN_SECONDS,
        seconds: took.as_secs_f64(),
        phases: figures::by_phase(case, &samples, &ledger.calls, &IN_SECONDS),
        traffic: figures::traffic(&ledger.calls, case.lives()),
        cpu_seconds: after.cpu_seconds - before.cpu_seconds,
        peak_memory: after.peak_memory,
    })
}

fn site(case: &Case, running: &Running, began: Instant) -> anyhow::Result<Site> {
    let of_env = |name: &str| running.env.get(name).cloned().with_context(|| format!("{name} in the env file"));
    let node = |id: String, zone: &str| Node { id, zone: zone.to_owned(), room: Arc::new(Semaphore::new(ROOM)) };
    let nodes = vec![
        node(of_env("EBS_SIM_INSTANCE_ID")?, "us-west-2a"),
        node(of_env("EBS_SIM_SECOND_INSTANCE_ID")?, "us-west-2b"),
    ];
    let workers = || Arc::new(Semaphore::new(case.workers.unwrap_or(Semaphore::MAX_PERMITS)));
    Ok(Site { client: running.client.clone(), nodes, workers: [workers(), workers(), workers(), workers()], began })
}

async fn start(case: &Case, places: &Places) -> anyhow::Result<Running> {
    let dir = places.dir.join(case.slug());
    if dir.exists() {
        fs::remove_dir_all(&dir).with_context(|| format!("remove {}", dir.display()))?;
    }
    fs::create_dir_all(dir.join("sim")).with_context(|| format!("make {}", dir.display()))?;
    let env_file = dir.join("sim/env");
    let path = |path: &Path| path.as_os_str().to_owned();
    let mut simulator = Process::spawn(ProcessSpec {
        name: "ebs-sim".to_owned(),
        program: places.bin_dir.join("ebs-sim"),
        args: vec![
            "--state-dir".into(),
            path(&dir.join("sim")),
            "--env-file".into(),
            path(&env_file),
            "--timing=realistic".into(),
            "--devices=none".into(),
            format!("--instance-type={INSTANCE_TYPE}").into(),
            "--zone=us-west-2a".into(),
            "--second-zone=us-west-2b".into(),
        ],
        env: BTreeMap::new(),
        log: dir.join("ebs-sim.log"),
    })?;
    let env = until_ready(&mut simulator, &env_file, START_BOUND).await?;
    let socket = dir.join("csi.sock");
    let mut driver = Process::spawn(ProcessSpec {
        name: "aws-ebs-csi-driver".to_owned(),
        program: places.bin_dir.join("aws-ebs-csi-driver"),
        args: vec!["controller".into(), format!("--endpoint=unix://{}", socket.display()).into()],
        env: env.clone(),
        log: dir.join("driver.log"),
    })?;
    let client = CsiClient::ready(&socket, &mut driver, START_BOUND).await?;
    let driver_pid = driver.pid();
    let control = control_of(&env)?;
    Ok(Running { client, control, driver_pid, env, started: vec![simulator, driver] })
}

async fn join(socket: &Path, sim_env: &Path) -> anyhow::Result<Running> {
    let env = env_of_file(sim_env)?;
    let client = CsiClient::lazy(socket);
    ensure!(client.probe().await.context("Probe of the other driver")?, "other driver is not ready");
    let driver_pid = process_stat::listener(socket)?;
    Ok(Running { client, control: control_of(&env)?, driver_pid, env, started: Vec::new() })
}

fn control_of(env: &BTreeMap<String, String>) -> anyhow::Result<Control> {
    Ok(Control::new(env.get("EBS_SIM_CONTROL").context("EBS_SIM_CONTROL in the env file")?))
}

async fn whole_ledger(control: &Control, from: u64) -> anyhow::Result<Ledger> {
    let ledger = control.ledger(from).await?;
    let expected = ledger.next - from;
    let got = u64::try_from(ledger.calls.len()).context("a number of calls")?;
    ensure!(got == expected, "the simulator recorded {got} of {expected} calls");
    Ok(ledger)
}

/// Checks that only the volumes of the instances are left.
async fn nothing_left(control: &Control) -> anyhow::Result<()> {
    let state = control.state().await?;
    let left: Vec<_> = state.live_volumes().into_iter().filter(|v| v.tags.contains_key("CSIVolumeName")).collect();
    if !left.is_empty() {
        bail!("{} volumes are left, first {:?}", left.len(), left[0]);
    }
    Ok(())
}
