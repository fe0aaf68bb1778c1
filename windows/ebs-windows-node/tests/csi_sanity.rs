//! Runs csi-sanity with all applicable optional arguments. It tests this node service with a fake Windows machine, and
//! a controller with the simulated EC2. The machine has the disks that are attached in EC2. All specs pass, except
//! those that `csi_sanity_skips.txt` lists as skipped.
#![cfg(unix)]

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use ebs_driver::csi_node::CsiNode;
use ebs_driver::operation::Operations;
use ebs_ec2::{DriverName, NodeId, ZoneName};
use ebs_metadata::{BlockDevices, LimitFlags, Machine, NodeMetadata};
use ebs_sim::api::SimInstance;
use ebs_sim::engine::EngineConfig;
use ebs_sim::iam::Shipped;
use ebs_sim::port::SimEc2;
use ebs_testkit::sanity::Part;
use ebs_windows_node::{NodeOptions, NodeStorage, Unproven, WindowsNode};
use tokio::task::JoinSet;
use winstorage::fake::FakeHost;
use winstorage::types::WinPath;
use winstorage::{Policy, Storage};

#[path = "csi_sanity/attached.rs"]
mod attached;
#[path = "csi_sanity/proxied.rs"]
mod proxied;
#[path = "csi_sanity/suite.rs"]
mod suite;

use attached::Attached;
use proxied::over_proxy;
use suite::{directory, holds, ran_all};

/// Creates an EC2 with one availability zone, because csi-sanity requests no zone and publishes every volume on this
/// machine.
async fn ec2() -> anyhow::Result<SimEc2> {
    let mut config = EngineConfig::default();
    config.zones.retain(|zone| zone.name == config.zone || zone.zone_type != "availability-zone");
    let other = config.zones.iter().find(|zone| zone.name != config.zone);
    config.second_zone.clone_from(&other.context("a zone for the second instance")?.name);
    let ec2 = SimEc2::start(config).await?;
    ec2.engine().least_rights().demand(Shipped::ManagedV2);
    Ok(ec2)
}

async fn machine(ec2: &SimEc2, dir: &Path) -> anyhow::Result<(FakeHost, SimInstance, Policy)> {
    let host = FakeHost::new();
    host.add_directory(&dir.join("sanity/target").display().to_string());
    let directory = WinPath::normalise(&dir.display().to_string()).context("the directory as Windows spells it")?;
    Ok((host, ec2.instances().await.swap_remove(0), Policy::new(vec![directory])))
}

fn service(instance: &SimInstance, storage: Arc<dyn NodeStorage>) -> anyhow::Result<CsiNode<WindowsNode>> {
    let metadata = NodeMetadata {
        node: NodeId::parse(&instance.id)?,
        instance_type: instance.instance_type.clone(),
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
    Ok(WindowsNode::new(options, storage, Operations::new()))
}

async fn passes(is_proxied: bool) -> anyhow::Result<()> {
    let dir = directory()?;
    let ec2 = ec2().await?;
    let (host, instance, policy) = machine(&ec2, dir.path()).await?;
    let mut tasks = JoinSet::new();
    let storage: Arc<dyn NodeStorage> = if is_proxied {
        Arc::new(over_proxy(&host, policy, &mut tasks, Unproven::Refuse).await?)
    } else {
        Arc::new(Storage::new(Arc::new(host.clone()), policy))
    };
    let node = Attached::new(service(&instance, storage)?, host, ec2.clone(), instance.id, 0);
    ran_all(&[holds(Part::Whole, &ec2, &node, dir.path()).await?])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csi_sanity_passes_on_a_windows_node() -> anyhow::Result<()> {
    passes(false).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csi_sanity_passes_on_a_windows_node_over_csi_proxy() -> anyhow::Result<()> {
    passes(true).await
}
