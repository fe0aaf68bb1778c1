//! Runs csi-sanity against a node service and a controller. The node service's machine has the disks of the simulated
//! EC2, which the controller uses.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use csi_proto::csi::node_server::Node;
use ebs_cloud::{Cloud, CloudConfig};
use ebs_driver::config::Mode;
use ebs_driver::controller::{ControllerOptions, ControllerService};
use ebs_driver::identity::IdentityService;
use ebs_driver::operation::Operations;
use ebs_driver::server::{self, Endpoint, RpcObserver};
use ebs_ec2::DriverName;
use ebs_sim::port::SimEc2;
use ebs_testkit::sanity::{self, Part, SanityResult, SanitySpec};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use crate::attached::{Attached, Machine};

const SKIPS: &str = include_str!("../csi_sanity_skips.txt");
const BOUND: Duration = Duration::from_secs(900);

struct Unobserved;

impl RpcObserver for Unobserved {
    fn finished(&self, _rpc: &'static str, _code: &'static str, _took: Duration) {}
}

/// Reads the expected skips. A line is `spec | csi-sanity's reason | ours`, and `#` starts a comment.
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

/// Runs a part of the suite, and checks that it skips exactly the listed specs.
async fn run(part: Part, socket: &Path, dir: &Path) -> anyhow::Result<SanityResult> {
    let program = sanity::program()?;
    let spec = SanitySpec {
        socket: socket.to_owned(),
        dir: dir.join("sanity"),
        volume_bytes: 1 << 30,
        expanded_bytes: 2 << 30,
        access: "mount",
        part,
        ec2_ids: false,
        attach_limit: true,
    };
    let mut expected = expected_skips()?;
    expected.retain(|spec, _| part.has(spec));
    let result = sanity::run(&program, &spec, BOUND).await?;
    let SanityResult { failed, skipped, .. } = &result;
    let shown: Vec<String> = failed.iter().map(|(spec, why)| format!("{spec}: {why}")).collect();
    ensure!(failed.is_empty(), "{} specs failed:\n{}", failed.len(), shown.join("\n"));
    let lines = |map: &BTreeMap<String, String>| {
        map.iter().map(|(spec, reason)| format!("{spec} | {reason}")).collect::<Vec<_>>().join("\n")
    };
    ensure!(*skipped == expected, "skipped:\n{}\nlisted:\n{}", lines(skipped), lines(&expected));
    Ok(result)
}

pub(crate) struct Ran {
    passed: usize,
    formatted: usize,
}

pub(crate) fn ran_all(runs: &[Ran]) -> anyhow::Result<()> {
    let passed: usize = runs.iter().map(|ran| ran.passed).sum();
    let formatted: usize = runs.iter().map(|ran| ran.formatted).sum();
    ensure!(passed > 50 && formatted > 3, "{passed} specs ran, {formatted} volumes were formatted");
    Ok(())
}

pub(crate) async fn holds<N: Node + Clone, M: Machine>(
    part: Part,
    ec2: &SimEc2,
    node: &Attached<N, M>,
    dir: &Path,
) -> anyhow::Result<Ran> {
    let socket = dir.join("csi.sock");
    let cloud = Arc::new(Cloud::new(Arc::new(ec2.clone()), CloudConfig::new(DriverName::default())));
    let controller = ControllerService::new(cloud, ControllerOptions::default(), Operations::new());
    let identity = IdentityService::new(Mode::All, "v0.0.0", watch::Sender::new(true).subscribe());
    let bound = server::bind(&Endpoint::parse(&format!("unix://{}", socket.display()))?, 0o600)?;
    let (routes, opening) = server::startup_gate(identity);
    opening.open(server::services(Some(controller), Some(node.clone())));
    let (stop, stopped) = oneshot::channel::<()>();
    let mut serving = JoinSet::new();
    serving.spawn(async move {
        let shutdown = async { drop(stopped.await) };
        server::serve(bound, routes, Arc::new(Unobserved), shutdown, Duration::from_secs(5)).await
    });
    let ran = run(part, &socket, dir).await;
    drop(stop);
    serving.join_next().await.context("the server")???;
    let passed = ran?.passed.len();
    node.sync().await;
    assert_eq!(node.detached_online(), Vec::<String>::new());
    assert_eq!(node.formatted_twice(), Vec::<String>::new());
    Ok(Ran { passed, formatted: node.formatted() })
}

pub(crate) fn directory() -> anyhow::Result<tempfile::TempDir> {
    let dir = tempfile::Builder::new().prefix("ebs-windows-").tempdir()?;
    std::fs::create_dir(dir.path().join("sanity"))?;
    Ok(dir)
}
