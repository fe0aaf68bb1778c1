//! The case `node`: the latency that a node adds to the kernel's own work, and its memory.
//!
//! The driver runs in node mode as a separate process, and its volumes are loop devices that take turns. A turn is
//! stage, publish, unpublish and unstage of a volume that has a file system, and right after it the necessary work,
//! done by this program: blkid, a mount and a bind. The first turn of each volume, which formats it, is not measured.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use csi_proto::csi;
use ebs_testkit::csi_client::{Access, CsiClient, refused};
use ebs_testkit::loop_device::{LoopDevice, unused_volume_id};
use ebs_testkit::mount_namespace::in_mount_namespace;
use ebs_testkit::process::{Process, ProcessSpec, run_tool};
use ebs_types::VolumeId;
use rustix::mount::{MountFlags, UnmountFlags};
use serde::Serialize;
use tokio::time::Instant;

use super::process_stat::{Resident, Usage};
use super::stage::Places;
use crate::simulator::until_ready;

const BOUND: Duration = Duration::from_secs(30);
const VOLUMES: usize = 8;
const VOLUME_BYTES: u64 = 64 << 20;
/// Number of turns, and the turn after which memory is first measured.
const TURNS: usize = 200;
const FIRST_LOOK: usize = 50;
/// Resident memory after all turns in MiB, and the permitted growth of the process's own part since the first
/// measurement.
const MEMORY: f64 = 12.0;
const GROWTH: f64 = 0.5;
/// Permitted added time of stage and publish, in seconds.
const ADDED: f64 = 0.020;

/// The results of the case.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct NodeFigures {
    turns: usize,
    /// Medians in seconds: of stage and publish together, and of the necessary work.
    stage_and_publish: f64,
    kernel_and_blkid: f64,
    /// CPU time of the driver per turn in seconds, without its blkid.
    cpu_per_turn: f64,
    /// At the first measurement and at the end.
    memory_early: Resident,
    memory_in_the_end: Resident,
}

impl NodeFigures {
    /// Returns the values with their limits.
    fn verdicts(&self) -> [(&'static str, f64, f64); 3] {
        [
            (
                "seconds added to blkid, mount and bind by stage and publish",
                self.stage_and_publish - self.kernel_and_blkid,
                ADDED,
            ),
            ("resident memory at the end, in MiB", self.memory_in_the_end.whole, MEMORY),
            (
                "growth of private memory since the first measurement, in MiB",
                self.memory_in_the_end.own - self.memory_early.own,
                GROWTH,
            ),
        ]
    }

    /// Returns the missed targets as text.
    pub(super) fn missed(&self) -> Vec<String> {
        let missed = self.verdicts().into_iter().filter(|(_, reached, target)| reached > target);
        missed.map(|(what, reached, target)| format!("node: {what} is {reached:.3}, target {target:.3}")).collect()
    }

    /// Formats the results for people.
    pub(super) fn text(&self) -> String {
        let mut text = format!(
            "\nnode: {} turns; stage and publish {:.1} ms (median), blkid, mount and bind alone {:.1} ms; driver {:.1} ms CPU a turn; resident {:.1} MiB after {FIRST_LOOK} turns, {:.1} MiB in the end, of it {:.1} MiB its own\n",
            self.turns,
            self.stage_and_publish * 1_000.0,
            self.kernel_and_blkid * 1_000.0,
            self.cpu_per_turn * 1_000.0,
            self.memory_early.whole,
            self.memory_in_the_end.whole,
            self.memory_in_the_end.own,
        );
        for (what, reached, target) in self.verdicts() {
            let word = if reached > target { "MISSED" } else { "ok" };
            text.push_str(&format!("  {word:<6} {what}: {reached:.3} (at most {target:.3})\n"));
        }
        text
    }
}

/// Runs the case in a private mount namespace; needs root.
///
/// # Errors
/// A process does not start, or an RPC fails.
pub(super) fn play(places: Places) -> anyhow::Result<NodeFigures> {
    let (sender, receiver) = mpsc::channel();
    in_mount_namespace(move || async move {
        // The receiver waits.
        let _ = sender.send(perform(&places).await);
    });
    receiver.recv().context("the case returned no results")?.context("node case")
}

async fn perform(places: &Places) -> anyhow::Result<NodeFigures> {
    let dir = tempfile::tempdir().context("a directory for the node")?;
    let root = dir.path().canonicalize().context("its path")?;
    let devices = root.join("devices");
    fs::create_dir(&devices).context("a directory for devices")?;
    let volumes = (0..VOLUMES).map(|_| {
        let id = unused_volume_id();
        let disk = LoopDevice::new_in(&devices, &id, VOLUME_BYTES)?;
        let (staging, target) = (root.join(format!("staging-{id}")), root.join(format!("target-{id}")));
        Ok(Turn { id, disk, staging, target })
    });
    let volumes = volumes.collect::<std::io::Result<Vec<Turn>>>().context("loop devices")?;
    let (mut simulator, mut driver, client) = start(places, &root, &devices).await?;
    let figures = measure(&volumes, &client, driver.pid()).await;
    let figures = figures.with_context(|| format!("the driver's log ends:\n{}", driver.log_tail(20)));
    driver.stop(BOUND).await?;
    simulator.stop(BOUND).await?;
    for turn in &volumes {
        for at in [&turn.target, &turn.staging] {
            // Only after an error is anything still mounted.
            let _ = rustix::mount::unmount(at, UnmountFlags::DETACH);
        }
    }
    figures
}

async fn start(places: &Places, root: &Path, devices: &Path) -> anyhow::Result<(Process, Process, CsiClient)> {
    let env_file = root.join("sim-env");
    let mut simulator = Process::spawn(ProcessSpec {
        name: "ebs-sim".to_owned(),
        program: places.program("ebs-sim"),
        args: vec![
            "--state-dir".into(),
            root.join("sim").into(),
            "--env-file".into(),
            env_file.clone().into(),
            "--devices=none".into(),
        ],
        env: BTreeMap::new(),
        log: places.log("node-ebs-sim.log"),
    })?;
    let mut env = until_ready(&mut simulator, &env_file, BOUND).await?;
    env.insert("EBS_SIM_DEVICES_DIR".to_owned(), devices.display().to_string());
    let socket = root.join("csi.sock");
    let mut driver = Process::spawn(ProcessSpec {
        name: "aws-ebs-csi-driver".to_owned(),
        program: places.program("aws-ebs-csi-driver"),
        args: vec!["node".into(), format!("--endpoint=unix://{}", socket.display()).into()],
        env,
        log: places.log("node-driver.log"),
    })?;
    let client = CsiClient::ready(&socket, &mut driver, BOUND).await?;
    Ok((simulator, driver, client))
}

/// A volume with its paths.
#[derive(Debug)]
struct Turn {
    id: VolumeId,
    disk: LoopDevice,
    staging: PathBuf,
    target: PathBuf,
}

async fn measure(volumes: &[Turn], client: &CsiClient, driver: u32) -> anyhow::Result<NodeFigures> {
    for turn in volumes {
        turn.play(client).await?;
    }
    let (mut ours, mut alone, mut memory_early) = (Vec::new(), Vec::new(), Resident::default());
    let before = Usage::of(driver)?;
    let mut turns = 0.0;
    for (n, turn) in volumes.iter().cycle().take(TURNS).enumerate() {
        ours.push(turn.play(client).await?);
        alone.push(turn.without_driver()?);
        turns += 1.0;
        if n + 1 == FIRST_LOOK {
            memory_early = Resident::of(driver)?;
        }
    }
    Ok(NodeFigures {
        turns: TURNS,
        cpu_per_turn: (Usage::of(driver)?.cpu_seconds - before.cpu_seconds) / turns,
        stage_and_publish: median(&mut ours).context("no turn")?,
        kernel_and_blkid: median(&mut alone).context("no turn")?,
        memory_early,
        memory_in_the_end: Resident::of(driver)?,
    })
}

pub(super) fn median(seconds: &mut [f64]) -> Option<f64> {
    seconds.sort_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

impl Turn {
    /// Runs a turn through the driver, and returns the seconds of stage and publish.
    async fn play(&self, client: &CsiClient) -> anyhow::Result<f64> {
        let text = |path: &Path| path.display().to_string();
        let capability = Some(Access::Mount("ext4".to_owned()).capability());
        // The device has the name from EC2, as with EC2's udev rules, so the driver need not search other disks.
        let context = [("devicePath", text(self.disk.path())), ("ebs.csi.aws.com/source", "none".to_owned())];
        let context: std::collections::HashMap<_, _> = context.map(|(k, v)| (k.to_owned(), v)).into();
        let stage = csi::NodeStageVolumeRequest {
            volume_id: self.id.to_string(),
            publish_context: context.clone(),
            staging_target_path: text(&self.staging),
            volume_capability: capability.clone(),
            ..Default::default()
        };
        let publish = csi::NodePublishVolumeRequest {
            volume_id: self.id.to_string(),
            publish_context: context,
            staging_target_path: text(&self.staging),
            target_path: text(&self.target),
            volume_capability: capability,
            ..Default::default()
        };
        let began = Instant::now();
        client.node().node_stage_volume(stage).await.map_err(refused)?;
        client.node().node_publish_volume(publish).await.map_err(refused)?;
        let took = began.elapsed();
        ensure!(self.target.join("lost+found").exists(), "{} shows no file system", self.target.display());
        let unpublish =
            csi::NodeUnpublishVolumeRequest { volume_id: self.id.to_string(), target_path: text(&self.target) };
        client.node().node_unpublish_volume(unpublish).await.map_err(refused)?;
        let unstage =
            csi::NodeUnstageVolumeRequest { volume_id: self.id.to_string(), staging_target_path: text(&self.staging) };
        client.node().node_unstage_volume(unstage).await.map_err(refused)?;
        Ok(took.as_secs_f64())
    }

    /// Does the necessary work: blkid, a mount and a bind.
    fn without_driver(&self) -> anyhow::Result<f64> {
        for at in [&self.staging, &self.target] {
            fs::create_dir(at).with_context(|| format!("make {}", at.display()))?;
        }
        let device = self.disk.path();
        let began = Instant::now();
        let found = run_tool("/usr/sbin/blkid", &["-p", &device.display().to_string()], BOUND)?;
        rustix::mount::mount(device, &self.staging, "ext4", MountFlags::empty(), None).context("mount")?;
        rustix::mount::mount_bind(&self.staging, &self.target).context("bind")?;
        let took = began.elapsed();
        for at in [&self.target, &self.staging] {
            rustix::mount::unmount(at, UnmountFlags::empty()).with_context(|| format!("unmount {}", at.display()))?;
            fs::remove_dir(at).with_context(|| format!("remove {}", at.display()))?;
        }
        if !found.contains("ext4") {
            bail!("blkid finds {found}");
        }
        Ok(took.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So `make bench` fails.
    #[test]
    fn slow_or_growing_node_misses_its_targets() {
        let good = NodeFigures {
            turns: TURNS,
            cpu_per_turn: 0.0,
            stage_and_publish: 0.030,
            kernel_and_blkid: 0.011,
            memory_early: Resident { whole: 11.6, own: 4.0 },
            memory_in_the_end: Resident { whole: 11.9, own: 4.4 },
        };
        assert_eq!(good.missed(), Vec::<String>::new());
        for (bad, word) in [
            (NodeFigures { stage_and_publish: 0.0312, ..good.clone() }, "added"),
            (NodeFigures { memory_in_the_end: Resident { whole: 12.1, own: 4.4 }, ..good.clone() }, "at the end"),
            (
                NodeFigures { memory_early: Resident { whole: 11.6, own: 3.8 }, ..good.clone() },
                "since the first measurement",
            ),
        ] {
            let missed = bad.missed();
            assert!(missed.len() == 1 && missed[0].contains(word), "{missed:?}");
            assert!(bad.text().contains("MISSED"));
        }
        assert_eq!(median(&mut [3.0, 1.0, 2.0]), Some(2.0));
    }
}
