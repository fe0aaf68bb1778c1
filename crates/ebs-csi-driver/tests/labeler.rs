//! Tests the metadata labeler as a process, and the node service that reads its labels, with the simulated EC2 and a
//! real Kubernetes API server.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use csi_proto::csi;
use ebs_sim::api::{AttachVolume, Call, CreateVolume, Reply};
use ebs_sim::{Server, ServerConfig};
use ebs_testkit::csi_client::CsiClient;
use ebs_testkit::kube_api::{KubeApi, SharedKubeApi, Who};
use ebs_testkit::process::{Ending, Process, ProcessSpec};
use ebs_testkit::world::{READY_BOUND, STOP_BOUND};
use serde_json::json;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const ENIS: &str = "ebs.csi.aws.com/enis-count";
const VOLUMES: &str = "ebs.csi.aws.com/non-csi-ebs-volumes-count";
/// The RBAC objects of the labeler's account.
const RIGHTS: &str = include_str!("labeler-rights.yaml");
/// Timeout of steps that take some seconds on an idle machine.
const BOUND: Duration = Duration::from_secs(180);

/// A simulated EC2 and a namespace of the API server that this process's tests share.
struct Place {
    sim: Server,
    kube: Arc<SharedKubeApi>,
    /// A kubeconfig with the administrator's credentials.
    kubeconfig: PathBuf,
    /// A kubeconfig with exactly the permissions that docs/kubernetes.md names.
    labelers: PathBuf,
    namespace: String,
    dir: tempfile::TempDir,
}

impl Place {
    async fn new(name: &str) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let sim = Server::start(ServerConfig::new(dir.path().join("sim"))).await.context("start the simulator")?;
        let kube = KubeApi::shared().await?;
        let namespace = format!("labeler-{name}");
        kube.create("/api/v1/namespaces", &json!({ "metadata": { "name": namespace } })).await?;
        kube.apply(&RIGHTS.replace("NAME", &namespace)).await.context("the labeler's rights")?;
        let (kubeconfig, labelers) = (kube.kubeconfig(Who::Admin)?, kube.kubeconfig(Who::User(&namespace))?);
        Ok(Self { sim, kube, kubeconfig, labelers, namespace, dir })
    }

    /// Starts the driver with the environment of the simulator's clients and with the variables in `env`.
    fn spawn(&self, name: &str, args: &[&str], env: &[(&str, &str)]) -> anyhow::Result<Process> {
        let mut all: BTreeMap<String, String> = self.sim.env();
        all.insert("POD_NAMESPACE".to_owned(), self.namespace.clone());
        all.extend(env.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())));
        let kubeconfig = if args.contains(&"metadataLabeler") { &self.labelers } else { &self.kubeconfig };
        let kubeconfig = format!("--kubeconfig={}", kubeconfig.display());
        let args = args.iter().copied().chain([kubeconfig.as_str(), "--v=4"]);
        Process::spawn(ProcessSpec {
            name: name.to_owned(),
            program: DRIVER.into(),
            args: args.map(Into::into).collect(),
            env: all,
            log: self.dir.path().join(format!("{name}.log")),
        })
    }

    fn labeler(&self, name: &str) -> anyhow::Result<Process> {
        self.spawn(name, &["metadataLabeler"], &[("AWS_REGION", "us-west-2")])
    }

    /// Creates a volume and attaches it to the instance without Kubernetes.
    async fn attached_volume(&self, instance: &str, device: &str) -> anyhow::Result<()> {
        let create = CreateVolume {
            availability_zone: Some("us-west-2a".to_owned()),
            size: Some(1),
            volume_type: Some("gp3".to_owned()),
            ..Default::default()
        };
        let Reply::CreateVolume(volume) = self.sim.engine().call(Call::CreateVolume(create)).await? else {
            bail!("no volume")
        };
        let attach = AttachVolume {
            volume_id: volume.id,
            instance_id: instance.to_owned(),
            device: Some(device.to_owned()),
            ..Default::default()
        };
        self.sim.engine().call(Call::AttachVolume(attach)).await?;
        Ok(())
    }

    async fn node(&self, name: &str, provider_id: &str) -> anyhow::Result<()> {
        let labels = json!({
            "node.kubernetes.io/instance-type": "m5.large",
            "topology.kubernetes.io/region": "us-west-2",
            "topology.kubernetes.io/zone": "us-west-2a",
        });
        let node = json!({ "metadata": { "name": name, "labels": labels }, "spec": { "providerID": provider_id } });
        self.kube.create("/api/v1/nodes", &node).await?;
        Ok(())
    }

    async fn labels(&self, node: &str) -> anyhow::Result<(Option<String>, Option<String>, String)> {
        let node = self.kube.get(&format!("/api/v1/nodes/{node}")).await?.context("the node is gone")?;
        let label = |key: &str| node["metadata"]["labels"][key].as_str().map(str::to_owned);
        let version = node["metadata"]["resourceVersion"].as_str().context("a version")?.to_owned();
        Ok((label(ENIS), label(VOLUMES), version))
    }

    /// Waits until a node has these labels. Returns the Node's resource version.
    async fn until_labelled(&self, node: &str, interfaces: &str, volumes: &str) -> anyhow::Result<String> {
        let wanted = (Some(interfaces.to_owned()), Some(volumes.to_owned()));
        let seen = async {
            loop {
                let (enis, others, version) = self.labels(node).await?;
                if (enis, others) == wanted {
                    return anyhow::Ok(version);
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        let seen = tokio::time::timeout(BOUND, seen).await;
        match seen {
            Ok(seen) => seen,
            Err(_) => {
                bail!("{node} has {:?} and not {wanted:?}; the logs end:\n{}", self.labels(node).await?, self.logs())
            }
        }
    }

    async fn until_logged(&self, log: &str, text: &str) -> anyhow::Result<()> {
        let path = self.dir.path().join(format!("{log}.log"));
        let seen = async {
            while !std::fs::read_to_string(&path).is_ok_and(|log| log.contains(text)) {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        };
        tokio::time::timeout(BOUND, seen).await.with_context(|| format!("{text:?} is not in:\n{}", self.logs()))
    }

    fn logs(&self) -> String {
        let logs = std::fs::read_dir(self.dir.path()).into_iter().flatten().flatten().map(|entry| entry.path());
        let logs = logs.filter(|path| path.extension().is_some_and(|end| end == "log"));
        logs.map(|path| format!("{}:\n{}", path.display(), tail(&path))).collect()
    }

    async fn finish(self, node: &str) -> anyhow::Result<()> {
        self.kube.delete(&format!("/api/v1/nodes/{node}")).await?;
        self.sim.engine().least_rights().check().map_err(anyhow::Error::msg)?;
        self.sim.shutdown().await.context("stop the simulator")
    }
}

fn tail(path: &Path) -> String {
    let log = std::fs::read_to_string(path).unwrap_or_default();
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}

async fn stopped(mut process: Process) -> anyhow::Result<()> {
    match process.stop(STOP_BOUND).await? {
        Ending::Ended(status) if status.success() => Ok(()),
        other => bail!("the labeler did not end cleanly: {other:?}\n{}", process.output()?),
    }
}

/// A running driver for a node, started with given metadata sources.
struct Served {
    process: Process,
    client: CsiClient,
    _dir: tempfile::TempDir,
}

impl Served {
    async fn start(place: &Place, node: &str, sources: &str, env: &[(&str, &str)]) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let socket = dir.path().join("csi.sock");
        let (endpoint, sources) =
            (format!("--endpoint=unix://{}", socket.display()), format!("--metadata-sources={sources}"));
        let env: Vec<(&str, &str)> = [("CSI_NODE_NAME", node)].iter().chain(env).copied().collect();
        let mut process = place.spawn(&format!("driver-{node}"), &["node", &endpoint, &sources], &env)?;
        let client = CsiClient::ready(&socket, &mut process, READY_BOUND).await?;
        Ok(Self { process, client, _dir: dir })
    }

    async fn info(&self) -> anyhow::Result<csi::NodeGetInfoResponse> {
        Ok(self.client.node_info().await?)
    }
}

/// The driver reports the same id, zone and attachment limit from labels as from the metadata service, and follows
/// changes of the labels. The labeler does not write to nodes whose labels are right.
#[tokio::test]
async fn node_has_same_limit_from_labels_as_from_imds() -> anyhow::Result<()> {
    let place = Place::new("node").await?;
    let machine = place.sim.env()["EBS_SIM_INSTANCE_ID"].clone();
    place.node("node-one", &format!("aws:///us-west-2a/{machine}")).await?;
    let labeler = place.labeler("labeler")?;
    place.until_labelled("node-one", "1", "0").await?;
    let off = [("AWS_EC2_METADATA_DISABLED", "true")];
    let by_imds = Served::start(&place, "node-one", "imds", &[]).await?;
    let expected = by_imds.info().await?;
    ensure!(expected.node_id == machine, "{expected:?}");
    stopped(by_imds.process).await?;
    let by_labels = Served::start(&place, "node-one", "imds,metadata-labeler", &off).await?;
    ensure!(by_labels.info().await? == expected, "{:?} is not {expected:?}", by_labels.info().await?);
    // Attach a volume that Kubernetes does not manage. Then remove a label, which makes the labeler count again.
    place.attached_volume(&machine, "/dev/xvdbc").await?;
    let gone = json!({ "metadata": { "labels": { VOLUMES: null } } });
    place.kube.merge("/api/v1/nodes/node-one", &gone).await?;
    let version = place.until_labelled("node-one", "1", "1").await?;
    let now = by_labels.info().await?.max_volumes_per_node;
    ensure!(now == expected.max_volumes_per_node - 1, "{now} after {}", expected.max_volumes_per_node);
    stopped(by_labels.process).await?;
    stopped(labeler).await?;
    // The next leader reads all nodes and need not write to any.
    let next = place.labeler("next")?;
    place.until_logged("next", "nodes checked").await?;
    ensure!(place.labels("node-one").await?.2 == version, "a label that was right was written again");
    stopped(next).await?;
    place.finish("node-one").await
}

/// The Node object shows that the machine is not an EC2 instance, and the metadata service is unavailable. The driver
/// logs the kind of machine and keeps serving: otherwise the kubelet would restart its pod repeatedly.
#[tokio::test]
async fn driver_outside_ec2_serves_and_logs_the_kind_of_machine() -> anyhow::Result<()> {
    let place = Place::new("foreign").await?;
    place.node("foreign-one", "eks-hybrid:///us-west-2/cluster/mi-0123456789abcdef0").await?;
    let closed = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1")];
    let served = Served::start(&place, "foreign-one", "imds,kubernetes", &closed).await?;
    ensure!(served.client.probe().await?, "not ready");
    let info = served.info().await?;
    ensure!(info.accessible_topology.is_none() && info.node_id.contains("foreign-one"), "{info:?}");
    let output = served.process.output()?;
    ensure!(output.contains("not an EC2 instance") && output.contains("mi-0123456789abcdef0"), "{output}");
    stopped(served.process).await?;
    place.finish("foreign-one").await
}

/// The Node object does not identify an instance, and the metadata service becomes available later. The driver then
/// exits with 1, so that the kubelet restarts it as the node service of that instance.
#[tokio::test]
async fn driver_exits_when_machine_proves_to_be_an_instance() -> anyhow::Result<()> {
    let place = Place::new("late").await?;
    place.node("late-one", "k3s://late-one").await?;
    let address = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?;
    let endpoint = format!("http://{address}");
    let away = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", endpoint.as_str())];
    let mut served = Served::start(&place, "late-one", "imds,kubernetes", &away).await?;
    ensure!(served.info().await?.accessible_topology.is_none(), "{:?}", served.info().await?);
    let mut config = ServerConfig::new(place.dir.path().join("late"));
    config.imds_listen = address;
    let comes = Server::start(config).await.context("start the metadata service")?;
    let status = served.process.wait(BOUND).await?;
    let output = served.process.output()?;
    ensure!(
        status.code() == Some(1) && output.contains("is the EC2 instance") && output.contains("exiting"),
        "{status:?}\n{output}"
    );
    comes.shutdown().await?;
    place.finish("late-one").await
}
