//! Tests of the programs of a Windows node. They run under Wine with a fake machine, which the tests control from
//! Linux. The tests send console events, and run csi-sanity. `csi_sanity.rs` also runs csi-sanity, but with the node
//! service in its own process.
#![cfg(unix)]

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use csi_proto::csi::node_server::Node;
use ebs_sim::engine::EngineConfig;
use ebs_sim::port::SimEc2;
use ebs_sim::server::{Server, ServerConfig};
use ebs_testkit::sanity::Part;
use tokio::task::JoinSet;
use tonic::Request;

#[path = "csi_sanity/attached.rs"]
mod attached;
#[path = "windows_program/forward.rs"]
mod forward;
#[path = "windows_program/go_csi_proxy.rs"]
mod go_csi_proxy;
#[path = "windows_program/program.rs"]
mod program;
#[path = "csi_sanity/suite.rs"]
mod suite;
#[path = "windows_program/wine.rs"]
mod wine;

use attached::{Attached, Machine};
use forward::Forward;
use program::{Driver, OtherMachine, csi_proxy};
use suite::{Ran, directory, holds, ran_all};
use wine::{PATIENCE, Windows, windows_path};

/// Creates an EC2 with one availability zone, as in `csi_sanity.rs`, and the metadata service of the machine.
fn server_config(dir: &Path) -> ServerConfig {
    let mut config = ServerConfig::new(dir.join("ec2"));
    let EngineConfig { zones, zone: own, second_zone, .. } = &mut config.engine;
    zones.retain(|zone| zone.name == *own || zone.zone_type != "availability-zone");
    if let Some(other) = zones.iter().find(|zone| zone.name != *own) {
        second_zone.clone_from(&other.name);
    }
    config
}

const PARTS: [(Part, u32); 4] =
    [(Part::Creation, 0), (Part::Attachment, 1_000), (Part::Node, 2_000), (Part::Other, 3_000)];

/// Runs a part of csi-sanity with its own controller, EC2 and driver. The driver runs as a host process or uses the
/// csi-proxy of `proxied`. Returns the result.
async fn part_holds(
    windows: Arc<Windows>,
    (part, last_disk): (Part, u32),
    dir: PathBuf,
    proxied: Option<OtherMachine>,
) -> anyhow::Result<Ran> {
    std::fs::create_dir_all(dir.join("sanity"))?;
    let server = Server::start(server_config(&dir)).await?;
    let ec2 = SimEc2::over(server.engine().clone());
    let instance = ec2.instances().await.swap_remove(0);
    let (driver, machine) = match proxied {
        None => Driver::as_host_process(&windows, &dir, &server.env()).await?,
        Some(machine) => (Driver::over_csi_proxy(&windows, &machine, &dir, &server.env()).await?, machine),
    };
    machine.make_directory(&dir.join("sanity/target"))?;
    let node = Forward::to(driver.address()).await?;
    let node = Attached::new(node, machine, ec2.clone(), instance.id, last_disk);
    let ran = holds(part, &ec2, &node, &dir).await.with_context(|| driver.wine.log());
    drop(driver);
    server.shutdown().await?;
    ran
}

async fn sanity_holds(windows: Windows, dir: &Path, proxied: Option<&OtherMachine>) -> anyhow::Result<()> {
    let windows = Arc::new(windows);
    let mut parts = JoinSet::new();
    for part in PARTS {
        parts.spawn(part_holds(windows.clone(), part, dir.join(format!("{:?}", part.0)), proxied.cloned()));
    }
    let mut runs = Vec::new();
    while let Some(ran) = parts.join_next().await {
        runs.push(ran??);
    }
    ran_all(&runs)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csi_sanity_passes_on_the_windows_program() -> anyhow::Result<()> {
    sanity_holds(Windows::new()?, directory()?.path(), None).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn csi_sanity_passes_on_the_windows_program_over_csi_proxy() -> anyhow::Result<()> {
    let (windows, dir) = (Windows::new()?, directory()?);
    let (proxy, machine) = csi_proxy(&windows, dir.path(), "").await?;
    sanity_holds(windows, dir.path(), Some(&machine)).await.with_context(|| proxy.log())
}

fn stage(volume: &str, staging_target_path: &str) -> Request<csi::NodeStageVolumeRequest> {
    use csi::volume_capability::access_mode::Mode;
    use csi::volume_capability::{AccessMode, AccessType, MountVolume};
    Request::new(csi::NodeStageVolumeRequest {
        volume_id: volume.to_owned(),
        staging_target_path: staging_target_path.to_owned(),
        volume_capability: Some(csi::VolumeCapability {
            access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
            access_type: Some(AccessType::Mount(MountVolume { fs_type: "ntfs".to_owned(), ..Default::default() })),
        }),
        publish_context: HashMap::from([("devicePath".to_owned(), "/dev/xvdaa".to_owned())]),
        ..Default::default()
    })
}

async fn is_formatting(machine: &OtherMachine, formats: usize) -> anyhow::Result<()> {
    let look = async {
        while machine.calls("format_ntfs") < formats {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, look).await.context("nothing is formatted")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_lets_a_running_format_finish() -> anyhow::Result<()> {
    const SLOWLY: &str = r#"{"step": "format_ntfs", "delay_ms": 1500}"#;
    let (windows, dir) = (Windows::new()?, directory()?);
    let server = Server::start(server_config(dir.path())).await?;
    let (mut proxy, machine) = csi_proxy(&windows, dir.path(), &[SLOWLY; 2].join(",")).await?;
    let staging = |name| dir.path().join("sanity").join(name).display().to_string();
    machine.make_directory(&dir.path().join("sanity"))?;
    for (number, serial) in [(1, "vol0123456789abcdef1_00000001."), (2, "vol0123456789abcdef2_00000001.")] {
        machine.attach(number, serial, 1 << 30);
    }
    let mut driver = Driver::over_csi_proxy(&windows, &machine, dir.path(), &server.env()).await?;
    let node = Forward::to(driver.address()).await?;
    let staged = node.node_stage_volume(stage("vol-0123456789abcdef1", &staging("one")));
    let (staged, asked) = tokio::join!(staged, async {
        is_formatting(&machine, 1).await?;
        driver.wine.press_control_c()
    });
    asked?;
    staged.with_context(|| driver.wine.log())?;
    ensure!(driver.wine.exit_code().await? == Some(0), "{}", driver.wine.log());
    ensure!(driver.wine.log().contains("CTRL_C") && machine.formats(1) == 1, "{}", driver.wine.log());

    let driver = Driver::over_csi_proxy(&windows, &machine, dir.path(), &server.env()).await?;
    let node = Forward::to(driver.address()).await?;
    // While csi-proxy finishes the format, it accepts no more calls.
    let staged = node.node_stage_volume(stage("vol-0123456789abcdef2", &staging("two")));
    let (_refused, asked) = tokio::join!(staged, async {
        is_formatting(&machine, 2).await?;
        proxy.press_control_c()
    });
    asked?;
    ensure!(proxy.exit_code().await? == Some(0), "{}", proxy.log());
    let log = proxy.log();
    let answered = log.lines().filter(|line| line.contains("FormatVolume") && line.contains(r#""event":"call""#));
    ensure!(answered.filter(|line| line.contains("OK")).count() == 2 && log.contains("csi-proxy has stopped"), "{log}");
    drop(driver);
    Ok(server.shutdown().await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn hung_format_delays_the_end_of_csi_proxy_by_20_seconds() -> anyhow::Result<()> {
    const HANGS: &str = r#"{"step": "format_ntfs", "delay_ms": 600000}"#;
    let (windows, dir) = (Windows::new()?, directory()?);
    let server = Server::start(server_config(dir.path())).await?;
    let (mut proxy, machine) = csi_proxy(&windows, dir.path(), HANGS).await?;
    machine.make_directory(&dir.path().join("sanity"))?;
    machine.attach(1, "vol0123456789abcdef1_00000001.", 1 << 30);
    let mut driver = Driver::over_csi_proxy(&windows, &machine, dir.path(), &server.env()).await?;
    let node = Forward::to(driver.address()).await?;
    let staging = dir.path().join("sanity/one").display().to_string();
    let staged = node.node_stage_volume(stage("vol-0123456789abcdef1", &staging));
    let (staged, ended) = tokio::join!(staged, async {
        is_formatting(&machine, 1).await?;
        let asked = tokio::time::Instant::now();
        proxy.press_control_c()?;
        anyhow::Ok((proxy.exit_code().await?, asked.elapsed()))
    });
    let (code, took) = ended?;
    ensure!(code == Some(1) && took >= Duration::from_secs(20), "{code:?} after {took:?}: {}", proxy.log());
    ensure!(proxy.log().contains("1 call"), "{}", proxy.log());
    let refused = staged.err().context("its csi-proxy has gone")?;
    ensure!(refused.message().contains("call csi-proxy's FormatVolume"), "{refused}");
    driver.wine.press_control_c()?;
    ensure!(driver.wine.exit_code().await? == Some(0), "{}", driver.wine.log());
    Ok(server.shutdown().await?)
}

/// Wine has no local sockets. The driver and the registrar exit with status 1 and name the requirement. They leave the
/// entry at the driver's socket path alone.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn programs_exit_with_a_reason_if_local_sockets_are_missing() -> anyhow::Result<()> {
    const WHY: &str = "AF_UNIX, which Windows Server 2019 and later have";
    let (windows, dir) = (Windows::new()?, directory()?);
    let server = Server::start(server_config(dir.path())).await?;
    let socket = dir.path().join("csi.sock");
    std::fs::write(&socket, "somebody's")?;
    let unix = windows_path('Z', &socket);
    let arguments = ["node".to_owned(), format!("--endpoint=unix:{unix}"), "--windows-host-process=true".to_owned()];
    let program = "examples/aws-ebs-csi-driver-on-a-fake.exe";
    let mut refused = windows.start(program, &arguments, &BTreeMap::new(), dir.path())?;
    ensure!(refused.exit_code().await? == Some(1) && refused.log().contains(WHY), "{}", refused.log());
    ensure!(std::fs::read_to_string(&socket)? == "somebody's");

    let (driver, _machine) = Driver::as_host_process(&windows, dir.path(), &server.env()).await?;
    let arguments = [
        format!("--csi-address=tcp://{}", driver.address()),
        format!("--kubelet-registration-path={unix}"),
        format!("--plugin-registration-path={}", windows_path('Z', dir.path())),
    ];
    let mut refused = windows.start("csi-node-driver-registrar.exe", &arguments, &BTreeMap::new(), dir.path())?;
    ensure!(refused.exit_code().await? == Some(1) && refused.log().contains(WHY), "{}", refused.log());
    drop(driver);
    Ok(server.shutdown().await?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ctrl_c_ends_the_waiting_registrar() -> anyhow::Result<()> {
    let (windows, dir) = (Windows::new()?, directory()?);
    let arguments =
        ["--csi-address=tcp://127.0.0.1:9", "--kubelet-registration-path=C:\\csi\\csi.sock"].map(String::from);
    let mut registrar = windows.start("csi-node-driver-registrar.exe", &arguments, &BTreeMap::new(), dir.path())?;
    registrar.said("driver").await?;
    registrar.press_control_c()?;
    ensure!(registrar.exit_code().await? == Some(0), "{}", registrar.log());
    Ok(())
}
