//! A power cut: the machine stops at once, whatever it is writing.

use std::time::Duration;

use anyhow::{Context, ensure};
use ebs_testkit::content;
use ebs_testkit::csi_client::Access;
use ebs_testkit::process::run_tool;
use ebs_testkit::writer::Writer;

use super::node::Node;
use crate::vm::line::Said;

const DATA: u64 = 4 << 20;
const CHECK: Duration = Duration::from_secs(120);
const FILE_SYSTEMS: [&str; 2] = ["ext4", "xfs"];

/// Writes and syncs data on both file systems, and cuts the power during other writes. Does not return.
pub(super) async fn cut(node: &Node) -> anyhow::Result<()> {
    let mut carried = Vec::new();
    let mut writers = Vec::new();
    for fs_type in FILE_SYSTEMS {
        let disk = node.volume(&Access::Mount(fs_type.to_owned()))?;
        disk.plug()?;
        disk.bring_up().await?;
        let hash = content::write_file(&disk.volume.target.join("acknowledged"), 9, DATA)?;
        std::fs::File::open(&disk.volume.target)?.sync_all().context("sync the directory")?;
        let writer = Writer::start(disk.volume.target.join("stream"));
        writer.progress().await?;
        carried.push(format!("{}/{hash}", disk.volume.id()));
        writers.push(writer);
    }
    // The response never arrives, because this machine ends here.
    node.ask(&Said::CutPower { carried: carried.join(",") })
}

/// After the next boot with the same disks: the volumes are staged without manual repair, with their data, and without
/// damage.
pub(super) async fn after(node: &Node, carried: &str) -> anyhow::Result<()> {
    for (fs_type, word) in FILE_SYSTEMS.iter().zip(carried.split(',')) {
        let (id, hash) = word.split_once('/').context("what was handed over")?;
        let disk = node.volume_of(id, &Access::Mount((*fs_type).to_owned()))?;
        disk.plug()?;
        disk.bring_up().await.context(*fs_type)?;
        let now = content::hash_file(&disk.volume.target.join("acknowledged"))?;
        ensure!(now == hash, "{fs_type}: data acknowledged before the power cut is lost");
        disk.take_down().await?;
        let device = format!("/dev/{}", disk.name()?);
        let check = if *fs_type == "ext4" { ("/usr/sbin/e2fsck", "-fn") } else { ("/usr/sbin/xfs_repair", "-n") };
        run_tool(check.0, &[check.1, &device], CHECK).with_context(|| format!("{fs_type} is damaged"))?;
        disk.unplug()?;
    }
    Ok(())
}
