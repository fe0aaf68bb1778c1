//! Disks that hang, err and vanish.

use std::path::Path;

use anyhow::{Context, ensure};
use csi_proto::csi::VolumeHealthErrorType;
use ebs_testkit::content;
use ebs_testkit::csi_client::Access;
use ebs_vm::line::Said;
use tokio::time::Instant;

use crate::node::{Disk, Node, until};

const DATA: u64 = 2 << 20;

fn mounted(fs_type: &str) -> Access {
    Access::Mount(fs_type.to_owned())
}

/// Its partition table cannot be read, so opening it hangs; meanwhile another volume is staged and published. That one is plugged
/// before: to plug a disk the machine stands still for a moment, and QEMU does that only when no request hangs.
pub(crate) async fn hangs(node: &Node) -> anyhow::Result<()> {
    let (slow, quick) = (node.volume(&mounted("ext4"))?, node.volume(&mounted("ext4"))?);
    quick.plug()?;
    quick.is_plugged().await?;
    node.ask(&Said::Plug { serial: slow.serial.clone(), gib: 1, hangs: true })?;
    slow.is_plugged().await?;
    let hung = async {
        let outcome = slow.volume.stage().await;
        (outcome, Instant::now())
    };
    let other = async {
        quick.bring_up().await?;
        content::write_file(&quick.volume.target.join("data"), 3, DATA)?;
        quick.take_down().await?;
        anyhow::Ok(Instant::now())
    };
    let ((staged, gave_up), other) = tokio::join!(hung, other);
    // Whatever comes out: the tests after this one need a machine that can stand still.
    node.ask(&Said::Release { serial: slow.serial.clone() })?;
    let other = other.context("the other volume")?;
    let status = staged.err().context("a disk whose reads hang was staged")?;
    ensure!(other < gave_up, "the other volume had to wait for the one that hangs ({status:?})");
    // Either the look's own bound has passed or, for the blank proof has ten minutes, the client's.
    let words = ["has not come back", "Timeout expired"];
    ensure!(words.iter().any(|word| status.message().contains(word)), "{status:?}");
    quick.unplug()?;
    // Calls that hung come back one after the other.
    let mut last = None;
    for _ in 0..10 {
        match slow.stage().await {
            Ok(()) => {
                slow.volume.unstage().await.map_err(ebs_testkit::csi_client::refused)?;
                return slow.unplug();
            }
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(std::time::Duration::from_secs(3)).await;
    }
    Err(last.context("no attempt")?).context("the disk does not hang any more and is not staged")
}

/// The options of the file system that is mounted at a path.
fn options(at: &Path) -> anyhow::Result<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").context("the mount table")?;
    let line = table.lines().find(|line| line.split(' ').nth(1) == at.to_str()).context("a mount")?;
    Ok(line.split(' ').nth(3).unwrap_or_default().to_owned())
}

async fn with_errors<'a>(node: &'a Node, fs_type: &str) -> anyhow::Result<(Disk<'a>, String)> {
    let disk = node.volume(&mounted(fs_type))?;
    disk.plug()?;
    disk.bring_up().await?;
    let written = content::write_file(&disk.volume.target.join("before"), 4, DATA)?;
    std::fs::File::open(&disk.volume.target)?.sync_all().context("sync the directory")?;
    node.ask(&Said::FailWrites { serial: disk.serial.clone() })?;
    Ok((disk, written))
}

/// The next stage makes it whole, with what was synced.
async fn mended(node: &Node, disk: &Disk<'_>, written: &str) -> anyhow::Result<()> {
    node.ask(&Said::Heal { serial: disk.serial.clone() })?;
    disk.take_down().await.context("with errors")?;
    disk.bring_up().await.context("after the errors")?;
    ensure!(disk.health().await?.is_none(), "not healthy after the next stage");
    ensure!(content::hash_file(&disk.volume.target.join("before"))? == written, "what was synced before is lost");
    content::write_file(&disk.volume.target.join("after"), 5, DATA).context("write after the errors")?;
    disk.take_down().await?;
    disk.unplug()
}

pub(crate) async fn ext4_errors(node: &Node) -> anyhow::Result<()> {
    let (disk, written) = with_errors(node, "ext4").await?;
    let target = disk.volume.target.clone();
    until("the kernel has turned it read-only", || {
        let _fails = content::write_file(&target.join("new"), 6, 4096);
        Ok(options(&disk.volume.staging)?.split(',').any(|word| word == "ro"))
    })
    .await?;
    let health = disk.health().await?;
    let wanted = (VolumeHealthErrorType::Degraded, "ReadOnlyAfterErrors".to_owned());
    ensure!(health.as_ref() == Some(&wanted), "{health:?}");
    mended(node, &disk, &written).await
}

pub(crate) async fn xfs_errors(node: &Node) -> anyhow::Result<()> {
    let (disk, written) = with_errors(node, "xfs").await?;
    let target = disk.volume.target.clone();
    until("the kernel has shut it down", || {
        let _fails = content::write_file(&target.join("new"), 6, 4096);
        Ok(std::fs::read_dir(&target).is_err())
    })
    .await?;
    let health = disk.health().await?;
    let is_reported = health.as_ref().is_some_and(|(status, _)| *status == VolumeHealthErrorType::Inaccessible);
    ensure!(is_reported, "{health:?}");
    mended(node, &disk, &written).await
}

pub(crate) async fn vanishes(node: &Node) -> anyhow::Result<()> {
    let disk = node.volume(&mounted("ext4"))?;
    disk.plug()?;
    disk.bring_up().await?;
    let file = disk.volume.target.join("data");
    let written = content::write_file(&file, 8, DATA)?;
    std::fs::File::open(&disk.volume.target)?.sync_all().context("sync the directory")?;
    disk.unplug()?;
    until("the disk is gone", || Ok(disk.controller()?.is_none())).await?;
    let health = disk.health().await?;
    let is_reported = health.as_ref().is_some_and(|(status, _)| *status == VolumeHealthErrorType::Inaccessible);
    ensure!(is_reported, "{health:?}");
    disk.take_down().await?;
    disk.plug()?;
    disk.bring_up().await?;
    ensure!(content::hash_file(&file)? == written, "what was synced is lost");
    disk.take_down().await?;
    disk.unplug()
}
