//! The case `node`: the latency that a node adds to the kernel's own work, and its memory.
//!
//! The driver's volumes are loop devices that take turns. In a turn, the driver stages, publishes, unpublishes and
//! unstages a volume, and then this program does only the necessary work: blkid, a mount and a bind. The first turn of
//! each volume formats it and is not measured.

use std::fs;
use std::path::Path;
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_testkit::csi_client::{Access, CsiClient, refused};
use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::{Process, run_tool};
use rustix::mount::{MountFlags, UnmountFlags};
use serde::Serialize;
use tokio::time::Instant;

use super::process_stat::Usage;
use super::report::{Verdict, table};
use crate::programs::{Places, Simulator, spawn_driver};

const BOUND: Duration = Duration::from_secs(30);
const VOLUMES: usize = 8;
const VOLUME_BYTES: u64 = 64 << 20;
/// Number of turns, and the turn after which memory is measured for the first time.
const TURNS: u32 = 200;
const FIRST_LOOK: u32 = 50;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct NodeFigures {
    turns: u32,
    /// Medians in seconds, of NodeStageVolume and NodePublishVolume together, and of the necessary work.
    stage_and_publish: f64,
    kernel_and_blkid: f64,
    /// The driver's CPU time per turn in seconds, without that of the blkid processes that it runs.
    cpu_per_turn: f64,
    /// Memory at the first measurement, and at the end.
    memory_early: Usage,
    memory_in_the_end: Usage,
}

impl NodeFigures {
    pub(super) fn verdicts(&self) -> [Verdict; 3] {
        let added = self.stage_and_publish - self.kernel_and_blkid;
        let growth = self.memory_in_the_end.own - self.memory_early.own;
        [
            Verdict::new("seconds that stage and publish take beyond blkid, mount and bind", added, 0.020),
            Verdict::new("resident memory at the end, in MiB", self.memory_in_the_end.resident, 12.0),
            Verdict::new("growth of private memory since the first measurement, in MiB", growth, 0.5),
        ]
    }

    pub(super) fn text(&self) -> String {
        format!(
            "\nnode: {} turns; stage and publish {:.1} ms (median), blkid, mount and bind alone {:.1} ms; driver {:.1} ms of CPU time per turn; resident {:.1} MiB after {FIRST_LOOK} turns, {:.1} MiB at the end, of which {:.1} MiB are private\n{}",
            self.turns,
            self.stage_and_publish * 1_000.0,
            self.kernel_and_blkid * 1_000.0,
            self.cpu_per_turn * 1_000.0,
            self.memory_early.resident,
            self.memory_in_the_end.resident,
            self.memory_in_the_end.own,
            table(&self.verdicts()),
        )
    }
}

/// Runs the case in a private mount namespace; needs root.
pub(super) fn play(places: Places) -> anyhow::Result<NodeFigures> {
    let (sender, receiver) = mpsc::channel();
    in_mount_namespace(move || async move {
        // The receiver still waits, so this cannot fail.
        let _ = sender.send(perform(&places).await);
    });
    receiver.recv().context("the case returned no results")?.context("node case")
}

async fn perform(places: &Places) -> anyhow::Result<NodeFigures> {
    let dir = tempfile::tempdir().context("create a directory for the node")?;
    let root = dir.path().canonicalize().context("resolve the directory's path")?;
    let devices = root.join("devices");
    fs::create_dir(&devices).context("create a directory for devices")?;
    let log = places.log("node-ebs-sim");
    let mut simulator = Simulator::spawn(&places.simulator(), &root.join("sim"), &["--devices=none"], log)?;
    let mut env = simulator.ready(BOUND).await?;
    env.insert("EBS_SIM_DEVICES_DIR".to_owned(), devices.display().to_string());
    let socket = root.join("csi.sock");
    let mut driver = spawn_driver(&places.driver(), &["node"], &socket, &env, places.log("node-driver"))?;
    let client = CsiClient::ready(&socket, &mut driver, BOUND).await?;
    let turns: Vec<Turn> = (0..VOLUMES).map(|_| Turn::new(&client, &devices, &root)).collect::<Result<_, _>>()?;
    let figures = measure(&turns, &driver).await;
    let figures = figures.with_context(|| format!("last lines of the driver's log:\n{}", driver.log_tail(20)));
    driver.stop(BOUND).await?;
    simulator.process.stop(BOUND).await?;
    for at in turns.iter().flat_map(Turn::places) {
        // Fails unless an earlier error has left the path mounted.
        let _ = rustix::mount::unmount(at, UnmountFlags::DETACH);
    }
    figures
}

async fn measure(volumes: &[Turn], driver: &Process) -> anyhow::Result<NodeFigures> {
    for turn in volumes {
        turn.play().await?;
    }
    let (mut ours, mut alone, mut memory_early) = (Vec::new(), Vec::new(), Usage::default());
    let before = Usage::of(driver.pid())?;
    for (n, turn) in (1..=TURNS).zip(volumes.iter().cycle()) {
        ours.push(turn.play().await?);
        alone.push(turn.without_driver()?);
        if n == FIRST_LOOK {
            memory_early = Usage::of(driver.pid())?;
        }
    }
    let memory_in_the_end = Usage::of(driver.pid())?;
    Ok(NodeFigures {
        turns: TURNS,
        cpu_per_turn: (memory_in_the_end.cpu_seconds - before.cpu_seconds) / f64::from(TURNS),
        stage_and_publish: median(&mut ours).context("no turn")?,
        kernel_and_blkid: median(&mut alone).context("no turn")?,
        memory_early,
        memory_in_the_end,
    })
}

pub(super) fn median(seconds: &mut [f64]) -> Option<f64> {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

#[derive(Debug)]
struct Turn {
    volume: VolumeOnNode,
    disk: LoopDevice,
}

impl Turn {
    fn new(client: &CsiClient, devices: &Path, root: &Path) -> anyhow::Result<Self> {
        let id = unused_volume_id();
        let disk = LoopDevice::new_in(devices, &id, VOLUME_BYTES).context("loop device")?;
        let volume = csi::Volume { volume_id: id.to_string(), ..Default::default() };
        let mut volume = VolumeOnNode::new(client, volume, &Access::Mount("ext4".to_owned()), "", root)?;
        // The device has the name that EC2 reports, as with EC2's udev rules, so the driver need not search other
        // disks.
        let path = disk.path().display().to_string();
        let context = [("devicePath", path), ("ebs.csi.aws.com/source", "none".to_owned())];
        volume.publish_context = context.map(|(key, value)| (key.to_owned(), value)).into();
        Ok(Self { volume, disk })
    }

    fn places(&self) -> [&Path; 2] {
        [&self.volume.target, &self.volume.staging]
    }

    /// Runs a turn through the driver, and returns the seconds that NodeStageVolume and NodePublishVolume took.
    async fn play(&self) -> anyhow::Result<f64> {
        let began = Instant::now();
        self.volume.stage().await.map_err(refused)?;
        self.volume.publish().await.map_err(refused)?;
        let took = began.elapsed();
        let target = &self.volume.target;
        ensure!(target.join("lost+found").exists(), "{} shows no file system", target.display());
        self.volume.unpublish().await.map_err(refused)?;
        self.volume.unstage().await.map_err(refused)?;
        Ok(took.as_secs_f64())
    }

    /// Does the necessary work: blkid, a mount and a bind.
    fn without_driver(&self) -> anyhow::Result<f64> {
        let [target, staging] = self.places();
        for at in [staging, target] {
            fs::create_dir(at).with_context(|| format!("make {}", at.display()))?;
        }
        let device = self.disk.path();
        let began = Instant::now();
        let found = run_tool("/usr/sbin/blkid", &["-p", &device.display().to_string()], BOUND)?;
        rustix::mount::mount(device, staging, "ext4", MountFlags::empty(), None).context("mount")?;
        rustix::mount::mount_bind(staging, target).context("bind")?;
        let took = began.elapsed();
        for at in [target, staging] {
            rustix::mount::unmount(at, UnmountFlags::empty()).with_context(|| format!("unmount {}", at.display()))?;
            fs::remove_dir(at).with_context(|| format!("remove {}", at.display()))?;
        }
        ensure!(found.contains("ext4"), "blkid finds {found}");
        Ok(took.as_secs_f64())
    }
}
