//! The driver's program for Windows, under Wine and over a machine in memory, driven from Linux: csi-sanity as against the node service in
//! this process (`csi_sanity.rs`).
#![cfg(unix)]

use std::path::Path;

use anyhow::Context;
use ebs_sim::port::SimEc2;
use ebs_sim::server::{Server, ServerConfig};
use ebs_types::ZoneName;

#[path = "csi_sanity/attached.rs"]
mod attached;
#[path = "windows_program/program.rs"]
mod program;
#[path = "csi_sanity/suite.rs"]
mod suite;

use attached::Attached;
use program::{Forward, Program};
use suite::{directory, holds};

/// An EC2 with one availability zone, as `csi_sanity.rs` has it, and the metadata service of the machine.
fn server_config(dir: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(dir.join("ec2"));
    config.zones.retain(|zone| zone.name == config.zone.as_str() || zone.zone_type != "availability-zone");
    if let Some(other) = config.zones.iter().find(|zone| zone.name != config.zone.as_str()) {
        config.second_zone = ZoneName::parse(&other.name).expect("a zone of the simulator");
    }
    config
}

/// csi-sanity finds no fault with the node service of the Windows program either, which runs under Wine over a machine in memory and is
/// reached over loopback.
///
/// Rule: windows.md T-34
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csi_sanity_finds_no_fault_with_the_windows_program_under_wine() -> anyhow::Result<()> {
    let dir = directory()?;
    let server = Server::start(server_config(dir.path())).await?;
    let ec2 = SimEc2::over(server.engine().clone());
    let instance = ec2.instances().await.swap_remove(0);
    let program = Program::start(dir.path(), &server.env()).await?;
    let machine = program.machine()?;
    machine.make_directory(&dir.path().join("sanity/target"))?;
    let node = Attached::new(Forward::to(program.endpoint()).await?, machine, ec2.clone(), instance.id);
    let held = holds(&ec2, &node, dir.path()).await.with_context(|| program.log());
    drop(program);
    server.shutdown().await?;
    held
}
