//! The case `process`: the cost of the program itself (start, memory, file size), optionally also of another driver's
//! program (`--reference`).

use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use csi_proto::csi;
use ebs_testkit::csi_client::{Access, CsiClient, new_volume, refused};
use ebs_testkit::kube_api::{API_SERVER, KubeApi, Who};
use ebs_testkit::process::Process;
use serde::Serialize;
use serde_json::json;
use tokio::time::Instant;

use super::node::median;
use super::process_stat::{Usage, to_f64};
use super::report::{Verdict, missed, table};
use crate::programs::{Env, Places, Simulator, spawn_driver};

const BOUND: Duration = Duration::from_secs(60);
/// Number of measured starts. The reported times are their medians.
const STARTS: usize = 9;
/// How long the program is idle before its memory is measured.
const IDLE: Duration = Duration::from_secs(3);
const CALLS: usize = 1_000;
/// Resolution of the time measurement.
const TICK: Duration = Duration::from_micros(500);

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct ProcessFigures {
    ours: bool,
    mode: &'static str,
    with_kubernetes: bool,
    /// Median seconds from the start to a connection, to the first answer, and to a ready Probe.
    to_socket: f64,
    to_answer: f64,
    to_ready: f64,
    /// Usage after some idle time, and after [`CALLS`] calls.
    idle: Usage,
    after_calls: Usage,
    file_bytes: u64,
}

impl ProcessFigures {
    /// Returns the measured values with their limits, or nothing for the reference driver.
    fn verdicts(&self) -> Vec<Verdict> {
        if !self.ours {
            return Vec::new();
        }
        let memory = if self.mode == "node" { 13.0 } else { 16.0 };
        vec![
            Verdict::new("idle resident memory, in MiB", self.idle.resident, memory),
            Verdict::new("seconds from start to first reply", self.to_answer, 0.010),
        ]
    }

    pub(super) fn missed(&self) -> Vec<String> {
        missed(self.mode, &self.verdicts())
    }

    pub(super) fn text(&self) -> String {
        format!(
            "\nprocess: {} {}{}: socket after {:.1} ms, first answer {:.1} ms, ready {:.1} ms, {:.0} ms CPU; resident idle {:.1} MiB ({:.1} private), after {CALLS} calls {:.1} MiB ({:.1}); {} threads; file {:.2} MB\n{}",
            if self.ours { "ours" } else { "reference" },
            self.mode,
            if self.with_kubernetes { " with Kubernetes" } else { "" },
            self.to_socket * 1_000.0,
            self.to_answer * 1_000.0,
            self.to_ready * 1_000.0,
            self.idle.cpu_seconds * 1_000.0,
            self.idle.resident,
            self.idle.own,
            self.after_calls.resident,
            self.after_calls.own,
            self.after_calls.threads,
            to_f64(self.file_bytes) / 1e6,
            table(&self.verdicts()),
        )
    }
}

type Cluster = (PathBuf, String);

/// Starts an API server with a node, if the server's program is available. Returns the server, its kubeconfig and the
/// name of the node.
async fn own_cluster() -> anyhow::Result<Option<(KubeApi, Cluster)>> {
    if std::env::var_os(API_SERVER).is_none() {
        return Ok(None);
    }
    let api = KubeApi::start().await.context("start an API server for the case")?;
    let name = "bench";
    let taint = json!({ "key": "ebs.csi.aws.com/agent-not-ready", "effect": "NoExecute" });
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": { "taints": [taint] } });
    api.create("/api/v1/nodes", &node).await?;
    let cluster = (api.kubeconfig(Who::Admin)?, name.to_owned());
    Ok(Some((api, cluster)))
}

/// Runs the case for our program and for another driver's.
pub(super) async fn play(places: &Places, reference: Option<&Path>) -> anyhow::Result<Vec<ProcessFigures>> {
    // Keeps the API server running until the end of this function.
    let own = own_cluster().await?;
    let cluster = own.as_ref().map(|(_, cluster)| cluster);
    let dir = tempfile::tempdir().context("create a directory for the case")?;
    let log = places.log("process-ebs-sim");
    let mut simulator = Simulator::spawn(&places.simulator(), &dir.path().join("sim"), &["--devices=none"], log)?;
    let mut env = simulator.ready(BOUND).await?;
    env.insert("AWS_REGION".to_owned(), "us-west-2".to_owned());
    let mut figures = Vec::new();
    let ours = places.driver();
    for (ours, program) in std::iter::once((true, ours.as_path())).chain(reference.map(|path| (false, path))) {
        for mode in ["node", "controller"] {
            for cluster in [None, cluster].into_iter().take(1 + usize::from(cluster.is_some())) {
                let name = if ours { "ours" } else { "reference" };
                let log = places.log(&format!("process-{name}-{mode}"));
                let subject = Subject { ours, mode, cluster, program, env: &env, log, dir: dir.path() };
                figures.push(subject.measure().await.with_context(|| format!("{} {mode}", program.display()))?);
            }
        }
    }
    simulator.process.stop(BOUND).await?;
    Ok(figures)
}

struct Subject<'a> {
    ours: bool,
    mode: &'static str,
    cluster: Option<&'a Cluster>,
    program: &'a Path,
    env: &'a Env,
    log: PathBuf,
    dir: &'a Path,
}

impl Subject<'_> {
    fn start(&self, socket: &Path) -> anyhow::Result<Process> {
        let mut env = self.env.clone();
        let mut args = vec![self.mode.to_owned(), "--v=2".to_owned()];
        if let Some((kubeconfig, node)) = self.cluster {
            args.push(format!("--kubeconfig={}", kubeconfig.display()));
            env.insert("CSI_NODE_NAME".to_owned(), node.clone());
        }
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        spawn_driver(self.program, &args, socket, &env, self.log.clone())
    }

    async fn measure(&self) -> anyhow::Result<ProcessFigures> {
        let mut times: [Vec<f64>; 3] = Default::default();
        for start in 0..STARTS {
            let socket = self.dir.join(format!("{}-{start}.sock", self.mode));
            let began = Instant::now();
            let mut driver = self.start(&socket)?;
            let measured = start_times(&socket, &mut driver, began).await?;
            times.iter_mut().zip(measured).for_each(|(all, one)| all.push(one));
            driver.stop(BOUND).await?;
        }
        let [to_socket, to_answer, to_ready] = times.map(|mut all| median(&mut all).unwrap_or_default());
        let socket = self.dir.join(format!("{}.sock", self.mode));
        let mut driver = self.start(&socket)?;
        let client = CsiClient::ready(&socket, &mut driver, BOUND).await?;
        tokio::time::sleep(IDLE).await;
        let idle = Usage::of(driver.pid())?;
        self.call(&client).await.context("calls")?;
        tokio::time::sleep(IDLE).await;
        let figures = ProcessFigures {
            ours: self.ours,
            mode: self.mode,
            with_kubernetes: self.cluster.is_some(),
            to_socket,
            to_answer,
            to_ready,
            idle,
            after_calls: Usage::of(driver.pid())?,
            file_bytes: fs::metadata(self.program).context("read the size of the program's file")?.len(),
        };
        driver.stop(BOUND).await?;
        Ok(figures)
    }

    /// Makes a thousand calls: reads and, for a controller, also creations and deletions of two hundred volumes.
    async fn call(&self, client: &CsiClient) -> anyhow::Result<()> {
        for n in 0..CALLS {
            match (self.mode, n % 5) {
                (_, 0) => drop(client.probe().await.map_err(refused)?),
                ("node", 1 | 2) => drop(client.node_info().await.map_err(refused)?),
                ("node", _) => {
                    client.node().node_get_capabilities(csi::NodeGetCapabilitiesRequest {}).await.map_err(refused)?;
                }
                (_, 1) => {
                    // A different name for each program, because EC2 would return the old volume for a used token.
                    let name = format!("pvc-{}-{}-{n}", self.ours, self.cluster.is_some());
                    let volume = client.create_volume(new_volume(&name, 1, &Access::Block)).await.map_err(refused)?;
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

/// Returns the seconds from `began` until the driver accepts a connection, answers, and reports that it is ready.
async fn start_times(socket: &Path, driver: &mut Process, began: Instant) -> anyhow::Result<[f64; 3]> {
    let deadline = began + BOUND;
    let mut tick = tokio::time::interval(TICK);
    while UnixStream::connect(socket).is_err() {
        tick.tick().await;
        if driver.ended()?.is_some() || Instant::now() > deadline {
            bail!("no socket; last lines of its log:\n{}", driver.log_tail(20));
        }
    }
    let connected = began.elapsed().as_secs_f64();
    let client = CsiClient::lazy(socket);
    client.identity().get_plugin_info(csi::GetPluginInfoRequest {}).await.map_err(refused)?;
    let answered = began.elapsed().as_secs_f64();
    while !client.probe().await.map_err(refused)? {
        tick.tick().await;
        if Instant::now() > deadline {
            bail!("not ready; last lines of its log:\n{}", driver.log_tail(20));
        }
    }
    Ok([connected, answered, began.elapsed().as_secs_f64()])
}
