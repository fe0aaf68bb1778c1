//! csi-sanity, with all of its optional arguments that apply, against this node service over a Windows machine in memory, beside the
//! controller over the simulated EC2: what is attached there is a disk here. Nothing fails, and what skips itself is exactly what
//! `csi_sanity_skips.txt` lists.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use ebs_cloud::{Cloud, CloudConfig};
use ebs_driver::config::{DriverConfig, DriverOptions, Mode};
use ebs_driver::controller::{ControllerOptions, ControllerService};
use ebs_driver::identity::{AlwaysHealthy, IdentityService, Readiness};
use ebs_driver::operation::Operations;
use ebs_driver::server::{self, RpcObserver};
use ebs_metadata::{BlockDevices, LimitFlags, Machine, NodeMetadata};
use ebs_sim::engine::EngineConfig;
use ebs_sim::iam::Shipped;
use ebs_sim::port::SimEc2;
use ebs_testkit::sanity::{self, Part, SanityResult, SanitySpec};
use ebs_types::{DriverName, NodeId, ZoneName};
use ebs_windows_node::{NodeOptions, WindowsNode};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use winstorage::fake::FakeHost;
use winstorage::types::WinPath;
use winstorage::{Policy, Storage};

#[path = "csi_sanity/attached.rs"]
mod attached;

use attached::Attached;

const SKIPS: &str = include_str!("csi_sanity_skips.txt");
/// For the whole suite, on a machine that is busy with other things.
const BOUND: Duration = Duration::from_secs(900);

struct Unobserved;

impl RpcObserver for Unobserved {
    fn finished(&self, _rpc: &'static str, _code: &'static str, _took: Duration) {}
}

/// A line is `spec | csi-sanity's reason | ours`; `#` starts a remark.
fn expected_skips() -> anyhow::Result<BTreeMap<String, String>> {
    let lines = SKIPS.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
    let mut skips = BTreeMap::new();
    for line in lines {
        let [spec, reason, ours] = line.split(" | ").collect::<Vec<_>>()[..] else {
            bail!("not `spec | csi-sanity's reason | ours`: {line}");
        };
        ensure!(!ours.trim().is_empty(), "no reason of ours: {line}");
        skips.insert(spec.to_owned(), reason.to_owned());
    }
    Ok(skips)
}

/// An EC2 with one availability zone: csi-sanity asks for no zone, and publishes on this machine whatever it got.
async fn ec2() -> anyhow::Result<SimEc2> {
    let mut config = EngineConfig::default();
    config.zones.retain(|zone| zone.name == config.zone || zone.zone_type != "availability-zone");
    let other = config.zones.iter().find(|zone| zone.name != config.zone);
    config.second_zone.clone_from(&other.context("a zone for the second instance")?.name);
    let ec2 = SimEc2::start(config).await?;
    ec2.engine().least_rights().demand(Shipped::ManagedV2);
    Ok(ec2)
}

async fn node(ec2: &SimEc2, dir: &Path) -> anyhow::Result<Attached> {
    let instance = ec2.instances().await.swap_remove(0);
    let host = FakeHost::new();
    // The kubelet's part: the directory of what is published.
    host.add_directory(&dir.join("sanity/target").display().to_string());
    let metadata = NodeMetadata {
        node: NodeId::parse(&instance.id)?,
        instance_type: instance.instance_type,
        region: "us-west-2".to_owned(),
        zone: ZoneName::parse(&instance.zone)?,
        outpost: None,
        network_interfaces: 1,
        block_devices: BlockDevices::Others(0),
    };
    let options = NodeOptions {
        driver: DriverName::default(),
        machine: Arc::new(Machine::told(metadata)),
        limits: LimitFlags::default(),
    };
    let directory = WinPath::normalise(&dir.display().to_string()).context("the directory as Windows spells it")?;
    let policy = Policy { letters_are_nobodys: true, ..Policy::new(vec![directory]) };
    let storage = Arc::new(Storage::new(Arc::new(host.clone()), policy));
    let node = WindowsNode::new(options, storage, Operations::new());
    Ok(Attached::new(node, host, ec2.clone(), instance.id))
}

fn identity(socket: &Path) -> anyhow::Result<(DriverConfig, IdentityService<AlwaysHealthy>)> {
    let config = DriverConfig::new(&DriverOptions {
        mode: Mode::All,
        version: "v0.0.0".to_owned(),
        endpoint: format!("unix://{}", socket.display()),
        endpoint_mode: "0600".to_owned(),
        extra_tags: Vec::new(),
        extra_volume_tags: Vec::new(),
        cluster_id: String::new(),
        warn_on_invalid_tag: false,
    })?;
    let identity = IdentityService::new(&config, Readiness::new(AlwaysHealthy));
    Ok((config, identity))
}

/// Runs the suite; what it skips must be what is listed.
async fn run(socket: &Path, dir: &Path) -> anyhow::Result<SanityResult> {
    let program = sanity::program()?;
    let spec = SanitySpec {
        socket: socket.to_owned(),
        dir: dir.join("sanity"),
        volume_bytes: 1 << 30,
        expanded_bytes: 2 << 30,
        access: "mount",
        part: Part::Whole,
        ec2_ids: false,
        attach_limit: true,
        call_timeout: None,
    };
    let expected = expected_skips()?;
    let result = sanity::run(&program, &spec, BOUND).await?;
    let SanityResult { passed, failed, skipped, calls } = &result;
    let shown: Vec<String> = failed.iter().map(|(spec, why)| format!("{spec}: {why}")).collect();
    ensure!(failed.is_empty(), "{} specs failed:\n{}\n{calls:#?}", failed.len(), shown.join("\n"));
    let lines = |map: &BTreeMap<String, String>| {
        map.iter().map(|(spec, reason)| format!("{spec} | {reason}")).collect::<Vec<_>>().join("\n")
    };
    ensure!(*skipped == expected, "skipped:\n{}\nlisted:\n{}", lines(skipped), lines(&expected));
    ensure!(passed.len() > 50, "only {} specs ran", passed.len());
    Ok(result)
}

/// csi-sanity finds no fault with volumes on a Windows node; every skip is listed with its reason. No disk is online when it is
/// detached, and none is formatted twice.
///
/// Rule: D-53; windows.md T-5
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csi_sanity_finds_no_fault_with_a_windows_node() -> anyhow::Result<()> {
    let dir = tempfile::Builder::new().prefix("ebs-windows-").tempdir()?;
    std::fs::create_dir(dir.path().join("sanity"))?;
    let socket = dir.path().join("csi.sock");
    let ec2 = ec2().await?;
    let cloud = Arc::new(Cloud::new(Arc::new(ec2.clone()), CloudConfig::new(DriverName::default())));
    let controller = ControllerService::new(cloud, ControllerOptions::default(), Operations::new());
    let node = node(&ec2, dir.path()).await?;
    let (config, identity) = identity(&socket)?;
    let bound = server::bind(&config.endpoint, config.endpoint_mode)?;
    let (routes, opening) = server::early(identity);
    opening.open(server::services(Some(controller), Some(node.clone())));
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let shutdown = async { drop(stopped.await) };
        server::serve(bound, routes, Arc::new(Unobserved), shutdown, Duration::from_secs(5)).await
    });
    let ran = run(&socket, dir.path()).await;
    drop(stop);
    serving.join_next().await.context("the server")???;
    ran?;
    node.sync().await;
    assert_eq!(node.detached_online(), Vec::<String>::new());
    assert!(node.formatted() > 3 && node.formatted_twice().is_empty(), "{:?}", node.formatted_twice());
    Ok(())
}
