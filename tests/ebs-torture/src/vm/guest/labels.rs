//! SELinux in enforcing mode, with the small policy of `policy.conf`. Tests the labels that the kubelet passes as mount
//! flags.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use csi_proto::csi::volume_capability::AccessType;
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, refused};
use ebs_testkit::process::run_tool;

use super::node::{Disk, Node};

const DATA: u64 = 1 << 20;
const BOUND: Duration = Duration::from_secs(60);
const OF_A_VOLUME: &str = "system_u:object_r:container_file_t:s0";
const OF_A_POD: &str = "system_u:system_r:container_t:s0";

pub(super) fn load_policy() -> anyhow::Result<()> {
    let policy = std::fs::read("/etc/selinux/policy").context("read the compiled policy")?;
    std::fs::write("/sys/fs/selinux/load", policy).context("load the policy into the kernel")?;
    let enforced = std::fs::read_to_string("/sys/fs/selinux/enforce").context("read SELinux's mode")?;
    ensure!(enforced.trim() == "1", "SELinux is not enforcing");
    Ok(())
}

/// All files have the label of the pod for which the volume is staged. A pod with other categories cannot read them,
/// and cannot use the volume while the first pod uses it. The next pod gets the same files with its own label.
pub(super) async fn of_mounts(node: &Node, fs_type: &str) -> anyhow::Result<()> {
    let disk = node.volume(&Access::Mount(fs_type.to_owned()))?;
    disk.plug()?;
    let file = disk.volume.target.join("data");
    bring_up(&disk, "c1,c2").await?;
    let written = content::write_file(&file, 1, DATA)?;
    shown(&disk, "c1,c2")?;
    read_as("c1,c2", &file).context("read as the volume's own pod")?;
    unread_as("c3,c4", &file)?;
    // Stage and publish again, with the categories in another order, which is the same label.
    bring_up(&disk, "c2,c1").await.context("again")?;
    let other = with_label(&disk, "c3,c4");
    let staged = node.client().stage(stage(&disk, &other)).await;
    let mut request = publish(&disk, &other);
    request.target_path.push_str("-of-another-pod");
    let published = node.client().node().node_publish_volume(request).await.map(drop);
    for (step, outcome, wanted) in [("stage", staged, "Unavailable"), ("publish", published, "AlreadyExists")] {
        let status = outcome.err().with_context(|| format!("{step} with another label"))?;
        let code = format!("{:?}", status.code());
        ensure!(code == wanted && status.message().contains("c3,c4"), "{step}: {status:?}");
    }
    disk.take_down().await?;
    bring_up(&disk, "c3,c4").await.context("for the next pod")?;
    ensure!(content::hash_file(&file)? == written, "the data differs");
    shown(&disk, "c3,c4")?;
    read_as("c3,c4", &file).context("read as the next pod")?;
    unread_as("c1,c2", &file)?;
    disk.take_down().await?;
    disk.unplug()
}

/// Returns the volume's capability with the mount flag that the kubelet adds for a pod with these categories.
fn with_label(disk: &Disk<'_>, categories: &str) -> csi::VolumeCapability {
    let mut capability = disk.volume.access.capability();
    if let Some(AccessType::Mount(mount)) = capability.access_type.as_mut() {
        mount.mount_flags.push(format!("context=\"{OF_A_VOLUME}:{categories}\""));
    }
    capability
}

fn stage(disk: &Disk<'_>, capability: &csi::VolumeCapability) -> csi::NodeStageVolumeRequest {
    csi::NodeStageVolumeRequest { volume_capability: Some(capability.clone()), ..disk.volume.stage_request() }
}

fn publish(disk: &Disk<'_>, capability: &csi::VolumeCapability) -> csi::NodePublishVolumeRequest {
    csi::NodePublishVolumeRequest { volume_capability: Some(capability.clone()), ..disk.volume.publish_request() }
}

async fn bring_up(disk: &Disk<'_>, categories: &str) -> anyhow::Result<()> {
    let capability = with_label(disk, categories);
    let client = disk.node().client();
    client.stage(stage(disk, &capability)).await.map_err(refused).context("stage")?;
    client.node().node_publish_volume(publish(disk, &capability)).await.map_err(refused).context("publish").map(drop)
}

/// Checks that everything in the volume has the label, including older files.
fn shown(disk: &Disk<'_>, categories: &str) -> anyhow::Result<()> {
    let wanted = format!("{OF_A_VOLUME}:{categories}");
    for path in [disk.volume.target.clone(), disk.volume.target.join("data")] {
        let mut label = vec![0_u8; 256];
        let length = rustix::fs::getxattr(&path, "security.selinux", label.as_mut_slice())
            .with_context(|| format!("read the label of {}", path.display()))?;
        let label = String::from_utf8_lossy(&label[..length]).trim_end_matches('\0').to_owned();
        ensure!(label == wanted, "{} has the label {label}, not {wanted}", path.display());
    }
    Ok(())
}

fn read_as(categories: &str, file: &Path) -> anyhow::Result<()> {
    // The output goes to a file on the node, so print only a checksum.
    let (context, file) = (format!("{OF_A_POD}:{categories}"), file.to_string_lossy());
    run_tool("/usr/bin/runcon", &[&context, "/usr/bin/sha256sum", &file], BOUND).map(drop)
}

fn unread_as(categories: &str, file: &Path) -> anyhow::Result<()> {
    let refused = read_as(categories, file)
        .err()
        .with_context(|| format!("a pod with the categories {categories} can read the volume"))?;
    ensure!(refused.to_string().contains("Permission denied"), "{refused:#}");
    Ok(())
}
