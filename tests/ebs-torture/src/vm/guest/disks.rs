//! Tests the discovery and lifecycle of disks.

use anyhow::{Context, ensure};
use ebs_ec2::VolumeId;
use ebs_mounter::{DeviceQuery, Mounter, MounterConfig};
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, GIB, refused};
use rustix::mount::{UnmountFlags, mount_bind, unmount};

use super::node::Node;
use crate::vm::line::Said;

const DATA: u64 = 4 << 20;

fn mounted(fs_type: &str) -> Access {
    Access::Mount(fs_type.to_owned())
}

/// Plugs in the disk while NodeStageVolume waits for it. Only the serial number identifies it: the guest has no udev,
/// and the device name in the publish context is only what the controller requested from EC2.
pub(super) async fn life(node: &Node, fs_type: &str) -> anyhow::Result<()> {
    let mut disk = node.volume(&mounted(fs_type))?;
    let (staged, plugged) = tokio::join!(disk.stage(), async { disk.plug() });
    plugged?;
    staged?;
    disk.publish().await?;
    let file = disk.volume.target.join("data");
    let written = content::write_file(&file, 1, DATA)?;
    let (total, used) = disk.volume.stats().await.map_err(refused)?;
    ensure!(total > GIB / 2 && total <= GIB && used >= DATA.cast_signed(), "{used} of {total} bytes");
    ensure!(disk.health().await?.is_none(), "not healthy");
    disk.take_down().await?;
    // Unplug the disk, enlarge it, and plug it in again.
    disk.unplug()?;
    disk.plug_size(2)?;
    disk.volume.publish_context.insert("ebs.csi.aws.com/size-gib".to_owned(), "2".to_owned());
    disk.bring_up().await?;
    ensure!(content::hash_file(&file)? == written, "the data differs");
    let (total, _) = disk.volume.stats().await.map_err(refused)?;
    ensure!(total > GIB / 2 * 3, "{total} bytes after the growth");
    disk.take_down().await?;
    disk.unplug()
}

/// Without a serial number in sysfs, the driver sends Identify only to the controller of the published device.
pub(super) async fn asked_itself(node: &Node) -> anyhow::Result<()> {
    let mut disk = node.volume(&mounted("ext4"))?;
    disk.plug()?;
    disk.is_plugged().await?;
    let name = disk.name()?;
    let serial = disk.controller()?.context("find the disk's controller")?.join("serial");
    let empty = std::path::Path::new("/tmp/empty");
    std::fs::write(empty, "")?;
    mount_bind(empty, &serial).context("hide the serial number")?;
    disk.volume.publish_context.insert("devicePath".to_owned(), format!("/dev/{name}"));
    let staged = disk.stage().await;
    let unstaged = disk.volume.unstage().await;
    unmount(&serial, UnmountFlags::DETACH).context("show the serial number")?;
    staged?;
    unstaged.map_err(refused)?;
    disk.unplug()
}

/// QEMU does not have the log page of EBS, so the driver reports the controller's status.
pub(super) async fn statistics(node: &Node) -> anyhow::Result<()> {
    let disk = node.volume(&mounted("ext4"))?;
    disk.plug()?;
    disk.is_plugged().await?;
    let mounter = Mounter::new(MounterConfig::new("/tmp/statistics"))?;
    let volume = VolumeId::parse(disk.volume.id())?;
    let device = mounter.find(&DeviceQuery { volume, hint: None, partition: None }).await?;
    let error = mounter.nvme_statistics(&device).await.err().context("a disk without statistics returned some")?;
    let error = format!("{:#}", anyhow::Error::from(error));
    // The NVMe status has code type 0 with code 2, or type 1 with code 9, and the bit "do not retry".
    ensure!(error.contains("returned status 0x4"), "{error}");
    node.say(&Said::Note { text: format!("without EBS statistics: {error}") })?;
    drop(device);
    disk.unplug()
}
