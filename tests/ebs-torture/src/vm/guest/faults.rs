//! Tests with disks that hang, fail or vanish.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi::VolumeHealthErrorType;
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, CsiClient};
use ebs_testkit::process::run_tool;
use ebs_testkit::writer::Writer;
use tokio::time::Instant;

use super::node::{Disk, LEVEL, LOOK, Node, until};
use crate::vm::line::Said;

const DATA: u64 = 2 << 20;
const CHECK: Duration = Duration::from_secs(120);
/// How long the client waits for a disk that hangs. The wait takes as long on the host as in the virtual machine.
const IMPATIENT: Duration = Duration::from_secs(45);

fn mounted(fs_type: &str) -> Access {
    Access::Mount(fs_type.to_owned())
}

/// The kernel cannot read the partition table, so opening the disk hangs. At the same time, another volume is staged
/// and published.
pub(super) async fn hangs(node: &Node) -> anyhow::Result<()> {
    let (slow, quick) = (node.volume(&mounted("ext4"))?, node.volume(&mounted("ext4"))?);
    quick.plug()?;
    quick.is_plugged().await?;
    node.ask(&Said::Plug { serial: slow.serial.clone(), gib: 1, hangs: true })?;
    slow.is_plugged().await?;
    let hung = async {
        let request = CsiClient::within(slow.volume.stage_request(), IMPATIENT);
        let outcome = node.client().stage(request).await;
        (outcome, Instant::now())
    };
    let other = async {
        quick.bring_up().await?;
        content::write_file(&quick.volume.target.join("data"), 3, DATA)?;
        quick.take_down().await?;
        anyhow::Ok(Instant::now())
    };
    let ((staged, gave_up), other) = tokio::join!(hung, other);
    // Release the disk whatever the outcome, because the guest cannot unplug a disk that hangs.
    node.ask(&Said::Release { serial: slow.serial.clone() })?;
    let other = other.context("use the other volume")?;
    let status = staged.err().context("a disk with hanging reads was staged")?;
    ensure!(other < gave_up, "the other volume waited for the hanging one ({status:?})");
    // Either the read timed out or the client did: the proof that a disk is blank may take ten minutes.
    let words = ["did not return", "Timeout expired"];
    ensure!(words.iter().any(|word| status.message().contains(word)), "{status:?}");
    quick.unplug()?;
    // The calls that hung return one after the other.
    let mut last = None;
    for _ in 0..10 {
        match slow.stage().await {
            Ok(()) => {
                slow.volume.unstage().await.map_err(ebs_testkit::csi_client::refused)?;
                return slow.unplug();
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_secs(3)).await;
    }
    Err(last.context("no attempt")?).context("the disk no longer hangs but is not staged")
}

fn options(at: &Path) -> anyhow::Result<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").context("read the mount table")?;
    let line = table.lines().find(|line| line.split(' ').nth(1) == at.to_str()).context("find the mount")?;
    Ok(line.split(' ').nth(3).unwrap_or_default().to_owned())
}

/// Stages and publishes the volume, writes and syncs data, and then makes writes fail. Returns the checksum of the
/// data.
async fn with_errors(disk: &Disk<'_>) -> anyhow::Result<String> {
    disk.bring_up().await?;
    let written = content::write_file(&disk.volume.target.join("before"), 4, DATA)?;
    std::fs::File::open(&disk.volume.target)?.sync_all().context("sync the directory")?;
    disk.fail_writes()?;
    Ok(written)
}

/// Takes a volume down after its writes failed. The first unstage may report that the kernel could not write
/// everything. The test repeats the unstage, like the kubelet.
async fn take_down_after_errors(disk: &Disk<'_>) -> anyhow::Result<()> {
    match disk.take_down().await {
        Err(error) if format!("{error:#}").contains("not synced is lost") => disk.take_down().await,
        outcome => outcome,
    }
}

/// Checks that the next NodeStageVolume repairs the volume and finds the synced data.
async fn mended(disk: &Disk<'_>, written: &str) -> anyhow::Result<()> {
    disk.heal()?;
    take_down_after_errors(disk).await.context("with errors")?;
    disk.bring_up().await.context("after the errors")?;
    ensure!(disk.health().await?.is_none(), "unhealthy after the next NodeStageVolume");
    ensure!(content::hash_file(&disk.volume.target.join("before"))? == written, "synced data is lost");
    content::write_file(&disk.volume.target.join("after"), 5, DATA).context("write after the errors")?;
    disk.take_down().await
}

/// The kernel fails all writes. Some kernels show this in the mount table, others only count the errors.
pub(super) async fn ext4_writes_fail(node: &Node) -> anyhow::Result<()> {
    let disk = node.volume(&mounted("ext4"))?;
    disk.plug()?;
    let written = with_errors(&disk).await?;
    let target = disk.volume.target.clone();
    let deadline = Instant::now() + LEVEL;
    let (status, reason) = loop {
        let fails = content::write_file(&target.join("new"), 6, 4096);
        match disk.health().await? {
            Some(health) => break health,
            None => ensure!(
                Instant::now() < deadline,
                "still healthy after {LEVEL:?} of failed writes; the last: {fails:?}"
            ),
        }
        tokio::time::sleep(LOOK).await;
    };
    let options = options(&disk.volume.staging)?;
    let is_said = options.split(',').any(|word| word == "ro" || word == "emergency_ro");
    node.say(&Said::Note { text: format!("ext4 after errors: {reason}, and the mount table has {options}") })?;
    let wanted = if is_said { "ReadOnlyAfterErrors" } else { "FileSystemErrors" };
    ensure!(status == VolumeHealthErrorType::Degraded && reason == wanted, "{status:?} {reason} with {options}");
    ensure!(content::write_file(&target.join("new"), 6, 4096).is_err(), "it is still writable");
    mended(&disk, &written).await?;
    disk.unplug()
}

pub(super) async fn xfs_writes_fail(node: &Node) -> anyhow::Result<()> {
    let disk = node.volume(&mounted("xfs"))?;
    disk.plug()?;
    let written = with_errors(&disk).await?;
    let target = disk.volume.target.clone();
    until("the kernel has shut it down", || {
        let _fails = content::write_file(&target.join("new"), 6, 4096);
        Ok(std::fs::read_dir(&target).is_err())
    })
    .await?;
    let health = disk.health().await?;
    let is_reported = health.as_ref().is_some_and(|(status, _)| *status == VolumeHealthErrorType::Inaccessible);
    ensure!(is_reported, "{health:?}");
    mended(&disk, &written).await?;
    disk.unplug()
}

pub(super) async fn vanishes(node: &Node) -> anyhow::Result<()> {
    let disk = node.volume(&mounted("ext4"))?;
    disk.plug()?;
    disk.bring_up().await?;
    let file = disk.volume.target.join("data");
    let written = content::write_file(&file, 8, DATA)?;
    std::fs::File::open(&disk.volume.target)?.sync_all().context("sync the directory")?;
    disk.unplug()?;
    until("the disk disappears", || Ok(disk.controller()?.is_none())).await?;
    let health = disk.health().await?;
    let is_reported = health.as_ref().is_some_and(|(status, _)| *status == VolumeHealthErrorType::Inaccessible);
    ensure!(is_reported, "{health:?}");
    disk.take_down().await?;
    disk.plug()?;
    disk.bring_up().await?;
    ensure!(content::hash_file(&file)? == written, "synced data is lost");
    disk.take_down().await?;
    disk.unplug()
}

/// Loses power during writes. [`after_power_cut`] continues in the next boot.
pub(super) async fn loses_power(node: &Node) -> anyhow::Result<()> {
    let disk = node.volume(&mounted("ext4"))?;
    disk.plug()?;
    let target = &disk.volume.target;
    disk.bring_up().await?;
    let written = content::write_file(&target.join("acknowledged"), 9, DATA)?;
    std::fs::File::open(target)?.sync_all().context("sync the directory")?;
    let writer = Writer::start(target.join("stream"));
    writer.progress().await?;
    node.ask(&Said::CutPower { carried: format!("{}/{written}", disk.volume.id()) })
}

/// Checks that the volume is staged without manual repair, with its acknowledged data and without damage.
pub(super) async fn after_power_cut(node: &Node, carried: &str) -> anyhow::Result<()> {
    let (id, written) = carried.split_once('/').context("the volume of the boot before")?;
    let disk = node.volume_of(id, &mounted("ext4"))?;
    disk.plug()?;
    disk.bring_up().await?;
    let now = content::hash_file(&disk.volume.target.join("acknowledged"))?;
    ensure!(now == written, "acknowledged data is lost");
    disk.take_down().await?;
    let device = format!("/dev/{}", disk.name()?);
    run_tool("/usr/sbin/e2fsck", &["-fn", &device], CHECK).context("the file system is damaged")?;
    disk.unplug()
}
