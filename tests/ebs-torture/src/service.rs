//! The node service, as a process that the torture cycles kill.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use csi_proto::csi::node_server::NodeServer;
use ebs_driver::node::{NodeOptions, NodeService};
use ebs_driver::operation::Operations;
use ebs_driver::server::{self, Endpoint, RpcObserver};
use ebs_ec2::{DriverName, InstanceId, ZoneName};
use ebs_metadata::{BlockDevices, LimitFlags, Machine, NodeMetadata};
use ebs_mounter::{Mounter, MounterConfig};
use tonic::service::Routes;

#[derive(Debug, Clone)]
pub struct ServiceOptions {
    pub socket: PathBuf,
    pub state: PathBuf,
    /// The directory of the simulated disks.
    pub devices: PathBuf,
    /// The file with the boot id of this node. A power cut changes its content.
    pub boot_id: PathBuf,
}

struct Unobserved;

impl RpcObserver for Unobserved {
    fn finished(&self, _rpc: &'static str, _code: &'static str, _took: Duration) {}
}

/// Serves the node service until the process is killed.
pub async fn serve(options: &ServiceOptions) -> anyhow::Result<()> {
    let subscriber =
        tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing_subscriber::filter::LevelFilter::INFO);
    subscriber.try_init().map_err(|error| anyhow::anyhow!("the log: {error}"))?;
    let config = MounterConfig {
        simulated_devices: Some(options.devices.clone()),
        late_device: Duration::ZERO,
        boot_id: options.boot_id.clone(),
        ..MounterConfig::new(&options.state)
    };
    let mounter = Mounter::new(config).context("create the mounter")?;
    let service = NodeService::new(node_options()?, mounter, Operations::new());
    let endpoint = Endpoint::parse(&format!("unix://{}", options.socket.display())).context("parse the endpoint")?;
    let bound = server::bind(&endpoint, 0o600).context("bind the socket")?;
    let routes = Routes::new(NodeServer::new(service));
    let never = std::future::pending();
    server::serve(bound, routes, Arc::new(Unobserved), never, Duration::ZERO).await.context("serving")
}

fn node_options() -> anyhow::Result<NodeOptions> {
    Ok(NodeOptions {
        driver: DriverName::default(),
        machine: Arc::new(Machine::told(NodeMetadata {
            node: ebs_ec2::NodeId::Instance(InstanceId::parse("i-0abc")?),
            instance_type: "m5.large".to_owned(),
            region: "us-west-2".to_owned(),
            zone: ZoneName::parse("us-west-2a")?,
            outpost: None,
            network_interfaces: 1,
            block_devices: BlockDevices::AtBoot(0),
        })),
        limits: LimitFlags::default(),
        legacy_xfs: false,
    })
}
