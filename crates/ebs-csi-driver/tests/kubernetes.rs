//! Tests the process with a real API server: it removes the node's start-up taint, and runs the pre-stop hook as the
//! kubelet does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::kube_api::{KubeApi, Who};
use ebs_testkit::process::{Ending, Process, ProcessSpec};
use ebs_testkit::run_dir::OwnDir;
use ebs_testkit::world::World;
use rustix::process::Signal;
use serde_json::{Value, json};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(120);
const TAINT: &str = "ebs.csi.aws.com/agent-not-ready";
const NODES: &str = "/api/v1/nodes";

async fn make_node(api: &KubeApi, name: &str, taints: &[&str]) -> anyhow::Result<()> {
    let taints: Vec<Value> = taints.iter().map(|key| json!({ "key": key, "effect": "NoSchedule" })).collect();
    let node =
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name }, "spec": { "taints": taints } });
    let node = api.create(NODES, &node).await?;
    let csi_node = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "CSINode",
        "metadata": {
            "name": name,
            "ownerReferences": [{ "apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"] }],
        },
        "spec": { "drivers": [
            { "name": "ebs.csi.aws.com", "nodeID": "i-1", "topologyKeys": [], "allocatable": { "count": 25 } }
        ] },
    });
    api.create("/apis/storage.k8s.io/v1/csinodes", &csi_node).await?;
    Ok(())
}

async fn has_taints(api: &KubeApi, name: &str) -> anyhow::Result<bool> {
    let node = api.get(&format!("{NODES}/{name}")).await?.context("the Node")?;
    Ok(node["spec"]["taints"].as_array().is_some_and(|taints| !taints.is_empty()))
}

/// In the modes node and all, the driver uses `--kubeconfig` to remove the start-up taint from the Node that
/// `CSI_NODE_NAME` names. It keeps the taint if `DISABLE_TAINT_WATCHER` has any value.
#[tokio::test]
async fn node_removes_its_start_up_taint_unless_disabled() -> anyhow::Result<()> {
    let api = KubeApi::shared().await?;
    for (mode, disabled, node) in [("node", None, "p-node"), ("all", None, "p-all"), ("node", Some("x"), "p-off")] {
        make_node(&api, node, &[TAINT]).await?;
        let kubeconfig = api.kubeconfig(Who::Admin)?;
        let mut world = World::builder(DRIVER)
            .mode(mode)
            .arg(&format!("--kubeconfig={}", kubeconfig.display()))
            .env("CSI_NODE_NAME", node);
        if let Some(disabled) = disabled {
            world = world.env("DISABLE_TAINT_WATCHER", disabled);
        }
        let world = world.start().await?;
        if disabled.is_some() {
            world.until_logged("the word", |log| log.contains("DISABLE_TAINT_WATCHER is set")).await?;
            ensure!(has_taints(&api, node).await?);
        } else {
            world.until_logged("the removal", |log| log.contains("start-up taint removed")).await?;
            ensure!(!has_taints(&api, node).await?);
        }
        world.finish().await?;
    }
    Ok(())
}

#[tokio::test]
async fn process_without_kubernetes_logs_disabled_features_once() -> anyhow::Result<()> {
    let world = World::builder(DRIVER).mode("node").start().await?;
    let says = "no Kubernetes client: not removing start-up taints";
    world.until_logged("the word", |log| log.matches(says).count() == 1).await?;
    world.finish().await?;
    // The driver also serves with an unusable kubeconfig, and logs a warning.
    let world = World::builder(DRIVER).mode("node").arg("--kubeconfig=/no/such/file").start().await?;
    let warns = |log: &str| log.lines().any(|line| line.starts_with('W') && line.contains("/no/such/file"));
    world.until_logged("the warning", warns).await?;
    world.finish().await?;
    // A controller uses neither start-up taints nor Node metadata.
    let world = World::builder(DRIVER).mode("controller").start().await?;
    let log = std::fs::read_to_string(&world.driver_spec().log)?;
    ensure!(log.contains("serving CSI") && !log.contains("no Kubernetes client"), "{log}");
    world.finish().await
}

struct Hook {
    process: Process,
    _dir: OwnDir,
}

impl Hook {
    fn start(kubeconfig: Option<&Path>, node: Option<&str>) -> anyhow::Result<Self> {
        let dir = OwnDir::new("hook-")?;
        let mut args = vec!["pre-stop-hook".into()];
        args.extend(kubeconfig.map(|path| format!("--kubeconfig={}", path.display()).into()));
        let env = node.map(|node| ("CSI_NODE_NAME".to_owned(), node.to_owned()));
        let process = Process::spawn(ProcessSpec {
            name: "hook".to_owned(),
            program: DRIVER.into(),
            args,
            env: env.into_iter().collect::<BTreeMap<_, _>>(),
            log: dir.path().join("log"),
        })?;
        Ok(Self { process, _dir: dir })
    }

    async fn ended(mut self) -> anyhow::Result<(Option<i32>, String)> {
        let status = self.process.wait(BOUND).await?;
        Ok((status.code(), self.process.output()?))
    }

    async fn until_said(&self, words: &str) -> anyhow::Result<()> {
        let said = async {
            while !self.process.output()?.contains(words) {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            anyhow::Ok(())
        };
        let said = tokio::time::timeout(BOUND, said).await;
        said.with_context(|| format!("no {words:?} in: {}", self.process.log_tail(20)))?
    }
}

/// The hook exits with 0 if it has nothing to wait for or no usable Kubernetes configuration. It exits with 1 and a
/// reason if its node's name is unknown or it cannot read the Node.
#[tokio::test]
async fn pre_stop_hook_exits_with_0_without_volumes_and_1_on_error() -> anyhow::Result<()> {
    let api = KubeApi::shared().await?;
    let admin = api.kubeconfig(Who::Admin)?;
    let expect = async |hook: Hook, code: i32, words: &str| -> anyhow::Result<()> {
        let (ended, output) = hook.ended().await?;
        ensure!(ended == Some(code) && output.contains(words), "{ended:?} for {words:?}: {output}");
        Ok(())
    };
    make_node(&api, "h-stays", &[]).await?;
    make_node(&api, "h-goes", &["ToBeDeletedByClusterAutoscaler"]).await?;
    expect(Hook::start(None, Some("h-stays"))?, 0, "KUBERNETES_SERVICE_HOST is not set").await?;
    expect(Hook::start(Some(Path::new("/no/such/file")), Some("h-stays"))?, 0, "/no/such/file").await?;
    expect(Hook::start(Some(&admin), None)?, 1, "CSI_NODE_NAME is not set").await?;
    expect(Hook::start(Some(&admin), Some("h-stays"))?, 0, "not being drained").await?;
    expect(Hook::start(Some(&admin), Some("h-goes"))?, 0, "all volumes of this driver are detached").await?;
    expect(Hook::start(Some(&admin), Some("h-unknown"))?, 0, "the Node was deleted").await?;
    let stranger = api.kubeconfig(Who::User("nobody-in-particular"))?;
    expect(Hook::start(Some(&stranger), Some("h-stays"))?, 1, "h-stays\\\" is forbidden").await?;
    Ok(())
}

#[tokio::test]
async fn pre_stop_hook_waits_for_detachment_and_exits_1_on_sigterm() -> anyhow::Result<()> {
    let api = KubeApi::shared().await?;
    make_node(&api, "h-held", &["karpenter.sh/disrupted"]).await?;
    let path = "/apis/storage.k8s.io/v1/volumeattachments";
    let attachment = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": { "name": "h-held" },
        "spec": { "attacher": "ebs.csi.aws.com", "nodeName": "h-held", "source": { "persistentVolumeName": "pv" } },
    });
    api.create(path, &attachment).await?;
    let admin = api.kubeconfig(Who::Admin)?;
    let mut hooks = [Hook::start(Some(&admin), Some("h-held"))?, Hook::start(Some(&admin), Some("h-held"))?];
    for hook in &hooks {
        hook.until_said("volumes of this driver are still attached").await?;
    }
    hooks[0].process.signal(Signal::TERM)?;
    let [ended, waits] = &mut hooks;
    let status = ended.process.wait(BOUND).await?;
    ensure!(status.code() == Some(1) && ended.process.output()?.contains("SIGTERM"), "{status:?}");
    ensure!(waits.process.ended()?.is_none(), "the other one has ended");
    api.delete(&format!("{path}/h-held")).await?;
    let status = waits.process.wait(BOUND).await?;
    ensure!(status.success(), "{status:?}: {}", waits.process.output()?);
    ensure!(matches!(waits.process.stop(BOUND).await?, Ending::Ended(_)));
    Ok(())
}
