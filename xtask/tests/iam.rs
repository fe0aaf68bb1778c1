//! The simulated EC2 enforces the minimal policies that `cargo xtask iam` prints, while the driver uses their features.
//! Needs the programs beside xtask (`make test` builds them).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use csi_proto::csi::volume_content_source::{Type, VolumeSource};
use ebs_testkit::control::Control;
use ebs_testkit::csi_client::{Access, CsiClient, new_volume, restored_volume};
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::{Process, ProcessSpec};
use futures_util::stream::{self, StreamExt, TryStreamExt};
use serde_json::Value;
use tonic::Status;

const XTASK: &str = env!("CARGO_BIN_EXE_xtask");
const BOUND: Duration = Duration::from_secs(180);
/// In the order in which [`use_feature`] can use them. Each includes those that it implies.
const FEATURES: [&str; 8] = [
    "volumes",
    "snapshots",
    "fast-restores",
    "snapshot-locks",
    "clones",
    "modification",
    "tag-edits",
    "initialization",
];

/// A simulated EC2 that enforces a policy, and the driver.
struct Enforced {
    csi: CsiClient,
    control: Control,
    node: String,
    _driver: Process,
    _simulator: Process,
    dir: tempfile::TempDir,
}

async fn policy(features: &str, base: &str) -> anyhow::Result<String> {
    let dir = tempfile::tempdir()?;
    let mut xtask = Process::spawn(ProcessSpec {
        name: "xtask".to_owned(),
        program: PathBuf::from(XTASK),
        args: vec!["iam".into(), "--features".into(), features.into(), "--policy".into(), base.into()],
        env: BTreeMap::new(),
        log: dir.path().join("log"),
    })?;
    let status = xtask.wait(BOUND).await?;
    let text = xtask.output()?;
    ensure!(status.success(), "{text}");
    Ok(text)
}

/// Waits for the simulator's env file and returns its lines `export NAME='value'`.
async fn env_of(simulator: &mut Process, file: &Path) -> anyhow::Result<BTreeMap<String, String>> {
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let written = async {
        while !file.exists() {
            tick.tick().await;
            ensure!(simulator.ended()?.is_none(), "ebs-sim ended:\n{}", simulator.log_tail(20));
        }
        Ok(std::fs::read_to_string(file)?)
    };
    let text: anyhow::Result<String> = tokio::time::timeout(BOUND, written).await.context("ebs-sim is not ready")?;
    let text = text?;
    let lines = text.lines().filter_map(|line| line.strip_prefix("export ")?.split_once('='));
    Ok(lines.map(|(name, value)| (name.to_owned(), value.trim_matches('\'').to_owned())).collect())
}

impl Enforced {
    async fn start(policy: &str, cluster: Option<&str>) -> anyhow::Result<Self> {
        let dir = tempfile::tempdir()?;
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("policy.json"), policy)?;
        std::fs::create_dir(at("csi"))?;
        let text = |path: PathBuf| path.into_os_string();
        let mut args = vec![
            "--state-dir".into(),
            text(at("sim")),
            "--env-file".into(),
            text(at("env")),
            "--devices".into(),
            "none".into(),
            "--policy".into(),
            text(at("policy.json")),
        ];
        args.extend(
            cluster.iter().flat_map(|name| ["--principal-tag".into(), format!("eks-cluster-name={name}").into()]),
        );
        let mut simulator = Process::spawn(ProcessSpec {
            name: "ebs-sim".to_owned(),
            program: PathBuf::from(XTASK).with_file_name("ebs-sim"),
            args,
            env: BTreeMap::new(),
            log: at("ebs-sim.log"),
        })?;
        let env = env_of(&mut simulator, &at("env")).await?;
        let node = env.get("EBS_SIM_INSTANCE_ID").context("EBS_SIM_INSTANCE_ID in the env file")?.clone();
        let control = Control::new(env.get("EBS_SIM_CONTROL").context("EBS_SIM_CONTROL in the env file")?);
        let socket = at("csi/csi.sock");
        let mut args = vec!["controller".into(), format!("--endpoint=unix://{}", socket.display()).into()];
        args.extend(cluster.iter().map(|name| format!("--k8s-tag-cluster-id={name}").into()));
        let mut driver = Process::spawn(ProcessSpec {
            name: "driver".to_owned(),
            program: PathBuf::from(XTASK).with_file_name("aws-ebs-csi-driver"),
            args,
            env,
            log: at("driver.log"),
        })?;
        let csi = CsiClient::ready(&socket, &mut driver, BOUND).await?;
        Ok(Self { csi, control, node, _driver: driver, _simulator: simulator, dir })
    }

    fn on_node(&self, volume: &csi::Volume) -> anyhow::Result<VolumeOnNode> {
        Ok(VolumeOnNode::new(&self.csi, volume.clone(), &Access::Block, &self.node, self.dir.path())?)
    }

    /// Returns the actions of successful calls and of permitted dry runs.
    async fn used(&self) -> anyhow::Result<BTreeSet<String>> {
        let calls = self.control.ledger(0).await?.calls.into_iter();
        let allowed = calls.filter(|call| call.did_work() || (call.dry_run && call.outcome == "DryRunOperation"));
        Ok(allowed.map(|call| call.action).collect())
    }

    /// Creates a snapshot with parameters of its class.
    async fn snapshot(&self, name: &str, volume: &csi::Volume, parameters: &[(&str, &str)]) -> Result<(), Status> {
        let request = csi::CreateSnapshotRequest {
            source_volume_id: volume.volume_id.clone(),
            name: name.to_owned(),
            parameters: parameters.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            ..Default::default()
        };
        self.csi.controller().create_snapshot(request).await.map(drop)
    }

    /// Changes a volume as a VolumeAttributesClass does.
    async fn modify(&self, volume: &csi::Volume, parameter: (&str, &str)) -> Result<(), Status> {
        let request = csi::ControllerModifyVolumeRequest {
            volume_id: volume.volume_id.clone(),
            mutable_parameters: [(parameter.0.to_owned(), parameter.1.to_owned())].into(),
            ..Default::default()
        };
        self.csi.controller().controller_modify_volume(request).await.map(drop)
    }
}

fn request(name: &str) -> csi::CreateVolumeRequest {
    new_volume(name, 1, &Access::Block)
}

/// Uses all of a feature.
async fn use_feature(ec2: &Enforced, feature: &str, volume: &csi::Volume) -> anyhow::Result<()> {
    let csi = &ec2.csi;
    match feature {
        "volumes" => {
            let another = csi.create_volume(request("pvc-another")).await?;
            let mut on_node = ec2.on_node(&another)?;
            on_node.attach().await?;
            on_node.detach().await?;
            csi.delete_volume(&another.volume_id).await?;
        }
        "snapshots" => {
            let snapshot = csi.snapshot_ready("snapshot-plain", &volume.volume_id, BOUND).await?;
            let restored = restored_volume("pvc-restored", 2, &Access::Block, &snapshot.snapshot_id);
            csi.create_volume(restored).await?;
            csi.delete_snapshot(&snapshot.snapshot_id).await?;
        }
        "fast-restores" => {
            ec2.snapshot("snapshot-fast", volume, &[("fastSnapshotRestoreAvailabilityZones", "us-west-2a")]).await?;
        }
        "snapshot-locks" => {
            // The second time the snapshot exists, and its lock is checked.
            for days in ["1", "2"] {
                ec2.snapshot("snapshot-locked", volume, &[("lockMode", "governance"), ("lockDuration", days)]).await?;
            }
        }
        "clones" => {
            let source = Type::Volume(VolumeSource { volume_id: volume.volume_id.clone() });
            let source = Some(csi::VolumeContentSource { r#type: Some(source) });
            // The source may have grown.
            let clone = new_volume("pvc-clone", 2, &Access::Block);
            csi.create_volume(csi::CreateVolumeRequest { volume_content_source: source, ..clone }).await?;
        }
        "modification" => {
            ec2.on_node(volume)?.expand_in_ec2(2).await?;
        }
        "tag-edits" => {
            ec2.modify(volume, ("tagSpecification_1", "team=storage")).await?;
            ec2.modify(volume, ("tagDeletion_1", "team")).await?;
        }
        "initialization" => {
            let parameters = [("blockAttachUntilInitialized".to_owned(), "true".to_owned())].into();
            let slow = csi.create_volume(csi::CreateVolumeRequest { parameters, ..request("pvc-slow") }).await?;
            ec2.on_node(&slow)?.attach().await?;
        }
        other => anyhow::bail!("nobody knows how to use {other}"),
    }
    Ok(())
}

/// Returns the EC2 actions that a policy allows.
fn granted(policy: &str) -> anyhow::Result<BTreeSet<String>> {
    let policy: Value = serde_json::from_str(policy)?;
    let mut actions = BTreeSet::new();
    for statement in policy["Statement"].as_array().context("statements")? {
        let all = statement["Action"].as_array().map_or(std::slice::from_ref(&statement["Action"]), Vec::as_slice);
        actions.extend(all.iter().filter_map(Value::as_str).map(|action| action.trim_start_matches("ec2:").to_owned()));
    }
    Ok(actions)
}

/// Each of its permissions is used, and other features fail.
#[tokio::test]
async fn minimal_policy_allows_exactly_its_features() -> anyhow::Result<()> {
    // Three at once, because the test mostly waits: before the driver reports an error of EC2, it describes the object.
    let features = stream::iter(FEATURES)
        .map(|feature| async move { one_feature(feature).await.with_context(|| format!("feature {feature}")) });
    features.buffer_unordered(3).try_collect().await
}

async fn one_feature(feature: &str) -> anyhow::Result<()> {
    let policy = policy(feature, "managed-v2").await?;
    let ec2 = Enforced::start(&policy, None).await?;
    let volume = ec2.csi.create_volume(request("pvc-first")).await?;
    let mut used = vec!["volumes"];
    if ["fast-restores", "snapshot-locks"].contains(&feature) {
        used.push("snapshots");
    }
    if feature != "volumes" {
        used.push(feature);
    }
    for each in &used {
        // EC2 accepts one snapshot of a volume in 15 s.
        ec2.control.advance(Duration::from_secs(20)).await?;
        use_feature(&ec2, each, &volume).await.with_context(|| format!("it needs {each}"))?;
    }
    let (granted, done) = (granted(&policy)?, ec2.used().await?);
    let unused: Vec<&String> = granted.difference(&done).filter(|action| !is_implicit(action)).collect();
    ensure!(unused.is_empty(), "granted and not used: {unused:?}; used were {done:?}");
    // Each rejected call costs the driver a describe with a wait of 15 s. So the smallest policy tries all other
    // features, and each other policy only the next one.
    let others = FEATURES.iter().cycle().skip_while(|each| **each != feature).take(FEATURES.len());
    let most = if feature == "volumes" { FEATURES.len() } else { 1 };
    for other in others.filter(|other| !used.contains(other)).take(most) {
        ec2.control.advance(Duration::from_secs(20)).await?;
        let refusal =
            use_feature(&ec2, other, &volume).await.err().with_context(|| format!("{other} is allowed too"))?;
        ensure!(format!("{refusal:#}").contains("UnauthorizedOperation"), "{other}: {refusal:#}");
    }
    Ok(())
}

/// Returns whether the action is part of another call: EC2 requires the permission to tag if a creation has tags.
fn is_implicit(action: &str) -> bool {
    action == "CreateTags"
}

/// The policy is the cluster-scoped one.
#[tokio::test]
async fn minimal_cluster_scoped_policy_allows_snapshots_and_changes() -> anyhow::Result<()> {
    let policy = policy("snapshots,modification,clones", "cluster-scoped").await?;
    let ec2 = Enforced::start(&policy, Some("blue")).await?;
    let volume = ec2.csi.create_volume(request("pvc-first")).await?;
    for feature in ["snapshots", "modification", "clones"] {
        use_feature(&ec2, feature, &volume).await.with_context(|| feature.to_owned())?;
    }
    let refusal = use_feature(&ec2, "tag-edits", &volume).await.err().context("tag edits are allowed too")?;
    ensure!(format!("{refusal:#}").contains("UnauthorizedOperation"), "{refusal:#}");
    Ok(())
}
