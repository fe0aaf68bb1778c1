//! The case `process`: the cost of the program itself. It measures the time from the start to the first answer on the
//! socket, the memory while idle and after a thousand calls, and the size of the file, optionally also of another
//! driver's program (`--reference`).

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use csi_proto::csi;
use ebs_testkit::csi_client::{Access, CsiClient, new_volume, refused};
use ebs_testkit::kube_api::{KubeApi, Who};
use ebs_testkit::process::{Process, ProcessSpec};
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::node::median;
use super::process_stat::{Resident, Usage};
use super::stage::Places;
use crate::simulator::until_ready;

const BOUND: Duration = Duration::from_secs(60);
/// Number of measured starts; the median counts.
const STARTS: usize = 9;
/// How long the program idles before its memory is measured.
const IDLE: Duration = Duration::from_secs(3);
const CALLS: usize = 1_000;
/// Resolution of the time measurement.
const TICK: Duration = Duration::from_micros(500);

/// Limits for our program: MiB, seconds, bytes.
const NODE_MEMORY: f64 = 10.0;
const NODE_MEMORY_WITH_KUBERNETES: f64 = 13.0;
const CONTROLLER_MEMORY: f64 = 18.0;
const ANSWERS_WITHIN: f64 = 0.010;
const FILE_SIZE: f64 = 15_000_000.0;

/// A program in a mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ProcessFigures {
    ours: bool,
    mode: &'static str,
    with_kubernetes: bool,
    /// Time from the start to a connection, to the first answer, and to a Probe that reports ready; in seconds,
    /// medians.
    to_socket: f64,
    to_answer: f64,
    to_ready: f64,
    /// After a while without calls, and after [`CALLS`] calls.
    idle: Resident,
    after_calls: Resident,
    threads: u32,
    /// CPU time from the start until it was ready and had idled, in seconds.
    cpu_of_start: f64,
    file_bytes: u64,
}

/// The programs to measure.
#[derive(Debug, Clone)]
pub(super) struct Programs {
    pub(super) places: Places,
    /// Another driver's program.
    pub(super) reference: Option<PathBuf>,
    /// A kubeconfig, and the name of a node in that cluster.
    pub(super) kubernetes: Option<(PathBuf, String)>,
}

impl ProcessFigures {
    fn memory_target(&self) -> f64 {
        match (self.mode, self.with_kubernetes) {
            ("node", false) => NODE_MEMORY,
            ("node", true) => NODE_MEMORY_WITH_KUBERNETES,
            _ => CONTROLLER_MEMORY,
        }
    }

    /// Returns the values with their limits.
    fn verdicts(&self) -> [(&'static str, f64, f64); 3] {
        let bytes = f64::from(u32::try_from(self.file_bytes).unwrap_or(u32::MAX));
        [
            ("idle resident memory, in MiB", self.idle.whole, self.memory_target()),
            ("seconds from start to first reply", self.to_answer, ANSWERS_WITHIN),
            ("size of the program, in bytes", bytes, FILE_SIZE),
        ]
    }

    /// Returns the missed targets as text; another driver has no targets.
    pub(super) fn missed(&self) -> Vec<String> {
        let missed = self.verdicts().into_iter().filter(|(_, reached, target)| self.ours && reached > target);
        missed
            .map(|(what, reached, target)| format!("{}: {what} is {reached:.3}, target {target:.3}", self.mode))
            .collect()
    }

    /// Formats the results for people.
    pub(super) fn text(&self) -> String {
        let millis = |seconds: f64| seconds * 1_000.0;
        let mut text = format!(
            "\nprocess: {} {}{}: socket after {:.1} ms, first answer {:.1} ms, ready {:.1} ms, {:.0} ms CPU; resident idle {:.1} MiB ({:.1} its own), after {CALLS} calls {:.1} MiB ({:.1}); {} threads; file {:.2} MB\n",
            if self.ours { "ours" } else { "reference" },
            self.mode,
            if self.with_kubernetes { " with Kubernetes" } else { "" },
            millis(self.to_socket),
            millis(self.to_answer),
            millis(self.to_ready),
            millis(self.cpu_of_start),
            self.idle.whole,
            self.idle.own,
            self.after_calls.whole,
            self.after_calls.own,
            self.threads,
            f64::from(u32::try_from(self.file_bytes).unwrap_or(u32::MAX)) / 1e6,
        );
        for (what, reached, target) in self.verdicts().into_iter().filter(|_| self.ours) {
            let word = if reached > target { "MISSED" } else { "ok" };
            text.push_str(&format!("  {word:<6} {what}: {reached:.3} (at most {target:.3})\n"));
        }
        text
    }
}

/// Starts an API server with a node, for the rows with a Kubernetes client. Returns it with a kubeconfig file and the
/// node's name.
///
/// # Errors
/// It does not start.
pub(super) async fn cluster_of_its_own() -> anyhow::Result<(KubeApi, PathBuf, String)> {
    let cluster = KubeApi::start().await.context("an API server for the case")?;
    let name = "bench";
    let taint = json!({ "key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute" });
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": { "taints": [taint] } });
    cluster.create("/api/v1/nodes", &node).await?;
    let kubeconfig = cluster.kubeconfig(Who::Admin)?;
    Ok((cluster, kubeconfig, name.to_owned()))
}

/// Runs the case.
///
/// # Errors
/// A process does not start or does not answer.
pub(super) async fn play(programs: &Programs) -> anyhow::Result<Vec<ProcessFigures>> {
    let dir = tempfile::tempdir().context("a directory for the case")?;
    let env_file = dir.path().join("sim-env");
    let mut simulator = Process::spawn(ProcessSpec {
        name: "ebs-sim".to_owned(),
        program: programs.places.program("ebs-sim"),
        args: vec![
            "--state-dir".into(),
            dir.path().join("sim").into(),
            "--env-file".into(),
            env_file.clone().into(),
            "--devices=none".into(),
        ],
        env: BTreeMap::new(),
        log: programs.places.log("process-ebs-sim.log"),
    })?;
    let env = until_ready(&mut simulator, &env_file, BOUND).await?;
    let mut figures = Vec::new();
    let ours = programs.places.program("aws-ebs-csi-driver");
    let all = std::iter::once((true, ours)).chain(programs.reference.clone().map(|path| (false, path)));
    for (ours, program) in all {
        for mode in ["node", "controller"] {
            for with_kubernetes in [false, true] {
                let Some(subject) = Subject::of(programs, (ours, &program), (mode, with_kubernetes), &env) else {
                    continue;
                };
                figures
                    .push(subject.measure(dir.path()).await.with_context(|| format!("{} {mode}", program.display()))?);
            }
        }
    }
    simulator.stop(BOUND).await?;
    Ok(figures)
}

/// One program in one mode.
struct Subject {
    ours: bool,
    mode: &'static str,
    with_kubernetes: bool,
    program: PathBuf,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    log: PathBuf,
}

impl Subject {
    /// Returns `None` for a case with Kubernetes if there is no cluster.
    fn of(
        programs: &Programs,
        (ours, program): (bool, &Path),
        (mode, with_kubernetes): (&'static str, bool),
        env: &BTreeMap<String, String>,
    ) -> Option<Self> {
        let mut args = vec![mode.to_owned(), "--v=2".to_owned()];
        let mut env = env.clone();
        env.insert("AWS_REGION".to_owned(), "us-west-2".to_owned());
        if with_kubernetes {
            let (kubeconfig, node) = programs.kubernetes.as_ref()?;
            args.push(format!("--kubeconfig={}", kubeconfig.display()));
            env.insert("CSI_NODE_NAME".to_owned(), node.clone());
        }
        let name = if ours { "ours" } else { "reference" };
        let log = programs.places.log(&format!("process-{name}-{mode}.log"));
        Some(Self { ours, mode, with_kubernetes, program: program.to_owned(), args, env, log })
    }

    fn start(&self, socket: &Path) -> anyhow::Result<Process> {
        let mut args: Vec<_> = self.args.iter().map(Into::into).collect();
        args.push(format!("--endpoint=unix://{}", socket.display()).into());
        Process::spawn(ProcessSpec {
            name: "driver".to_owned(),
            program: self.program.clone(),
            args,
            env: self.env.clone(),
            log: self.log.clone(),
        })
    }

    async fn measure(&self, dir: &Path) -> anyhow::Result<ProcessFigures> {
        let (mut to_socket, mut to_answer, mut to_ready) = (Vec::new(), Vec::new(), Vec::new());
        for start in 0..STARTS {
            let socket = dir.join(format!("{}-{start}.sock", self.mode));
            let began = Instant::now();
            let mut driver = self.start(&socket)?;
            let times = start_times(&socket, &mut driver, began).await?;
            to_socket.push(times[0]);
            to_answer.push(times[1]);
            to_ready.push(times[2]);
            driver.stop(BOUND).await?;
        }
        let socket = dir.join(format!("{}.sock", self.mode));
        let mut driver = self.start(&socket)?;
        let client = CsiClient::ready(&socket, &mut driver, BOUND).await?;
        tokio::time::sleep(IDLE).await;
        let (idle, start) = (Resident::of(driver.pid())?, Usage::of(driver.pid())?);
        self.call(&client).await.context("calls")?;
        tokio::time::sleep(IDLE).await;
        let figures = ProcessFigures {
            ours: self.ours,
            mode: self.mode,
            with_kubernetes: self.with_kubernetes,
            to_socket: median(&mut to_socket).context("no start")?,
            to_answer: median(&mut to_answer).context("no start")?,
            to_ready: median(&mut to_ready).context("no start")?,
            idle,
            after_calls: Resident::of(driver.pid())?,
            threads: threads(driver.pid())?,
            cpu_of_start: start.cpu_seconds,
            file_bytes: fs::metadata(&self.program).context("the program's file")?.len(),
        };
        driver.stop(BOUND).await?;
        Ok(figures)
    }

    /// Makes a thousand calls: read calls of a node, or of a controller, which also creates and deletes two hundred
    /// volumes.
    async fn call(&self, client: &CsiClient) -> anyhow::Result<()> {
        for n in 0..CALLS {
            match (self.mode, n % 5) {
                (_, 0) => drop(client.probe().await.map_err(refused)?),
                ("node", 1 | 2) => drop(client.node_info().await.map_err(refused)?),
                ("node", _) => {
                    client.node().node_get_capabilities(csi::NodeGetCapabilitiesRequest {}).await.map_err(refused)?;
                }
                (_, 1) => {
                    // A new name for each program, because a used token would return the old volume.
                    let name = format!("pvc-{}-{}-{n}", self.ours, self.with_kubernetes);
                    let volume = new_volume(&name, 1, &Access::Block);
                    let volume = client.create_volume(volume).await.map_err(refused)?;
                    client.delete_volume(&volume.volume_id).await.map_err(refused)?;
                }
                (_, 2) => {}
                _ => {
                    let request = csi::ControllerGetCapabilitiesRequest {};
                    client.controller().controller_get_capabilities(request).await.map_err(refused)?;
                }
            }
        }
        Ok(())
    }
}

/// Returns the seconds from `began` until a connection, an answer, and the answer that it is ready.
async fn start_times(socket: &Path, driver: &mut Process, began: Instant) -> anyhow::Result<[f64; 3]> {
    let deadline = began + BOUND;
    let mut tick = tokio::time::interval(TICK);
    while UnixStream::connect(socket).is_err() {
        tick.tick().await;
        if driver.ended()?.is_some() || Instant::now() > deadline {
            bail!("no socket; the log ends:\n{}", driver.log_tail(20));
        }
    }
    let connected = began.elapsed().as_secs_f64();
    let client = CsiClient::lazy(socket);
    client.identity().get_plugin_info(csi::GetPluginInfoRequest {}).await.map_err(refused)?;
    let answered = began.elapsed().as_secs_f64();
    while !client.probe().await.map_err(refused)? {
        tick.tick().await;
        if Instant::now() > deadline {
            bail!("not ready; the log ends:\n{}", driver.log_tail(20));
        }
    }
    Ok([connected, answered, began.elapsed().as_secs_f64()])
}

fn threads(pid: u32) -> anyhow::Result<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).context("its status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("Threads:")).context("its threads")?;
    line.trim().parse().context("a number of threads")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So `make bench` fails. The values of another driver are only printed.
    #[test]
    fn large_or_slow_process_misses_its_targets() {
        let good = ProcessFigures {
            ours: true,
            mode: "node",
            with_kubernetes: false,
            to_socket: 0.003,
            to_answer: 0.009,
            to_ready: 0.030,
            idle: Resident { whole: 9.9, own: 2.0 },
            after_calls: Resident { whole: 11.0, own: 3.0 },
            threads: 4,
            cpu_of_start: 0.01,
            file_bytes: 14_900_000,
        };
        assert_eq!(good.missed(), Vec::<String>::new());
        for (bad, word) in [
            (ProcessFigures { idle: Resident { whole: 10.1, own: 2.0 }, ..good.clone() }, "idle"),
            (ProcessFigures { to_answer: 0.011, ..good.clone() }, "answer"),
            (ProcessFigures { file_bytes: 15_100_000, ..good.clone() }, "file"),
        ] {
            let missed = bad.missed();
            assert!(missed.len() == 1 && missed[0].contains(word), "{missed:?}");
            assert!(bad.text().contains("MISSED"));
            assert_eq!(ProcessFigures { ours: false, ..bad }.missed(), Vec::<String>::new());
        }
        let kubernetes = ProcessFigures { with_kubernetes: true, idle: Resident { whole: 12.9, own: 4.0 }, ..good };
        assert_eq!(kubernetes.missed(), Vec::<String>::new());
    }
}
