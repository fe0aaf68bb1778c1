//! The image in containerd.

use std::path::Path;

use anyhow::{Context, ensure};
use ebs_testkit::containerd::{Containerd, ImagePod};
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, GIB, new_volume, refused};
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::process::tool;
use ebs_testkit::world::{World, with_mounts};

use super::{BOUND, DRIVER, HERE, script, text};

const DATA: u64 = 4 << 20;

/// Writes the image with the driver that cargo has built as an archive.
async fn archive(to: &Path) -> anyhow::Result<()> {
    let driver = to.with_extension("driver");
    tool("/usr/bin/strip", &["-o", text(&driver)?, DRIVER], BOUND).await?;
    let driver = format!("{HERE}={}", driver.display());
    script("deploy/image/pack", &["--newer", "--plain", text(to)?, &driver]).await.map(drop)
}

/// Formats, mounts, writes and grows a volume, and reads its data after another mount, all by the programs of the
/// image.
async fn life(world: &World, pod: &ImagePod<'_>, access: &Access) -> anyhow::Result<()> {
    let node = pod.client().node_info().await.context("NodeGetInfo")?.node_id;
    let name = format!("pvc-{access:?}").replace(['"', '(', ')'], "-").to_lowercase();
    let volume = world.client().create_volume(new_volume(&name, 1, access)).await.map_err(refused)?;
    let mut volume = VolumeOnNode::new(world.client(), volume, access, &node, &world.kubelet_dir())?;
    volume.attach().await.map_err(refused).context("attach")?;
    volume.set_client(pod.client());
    volume.stage().await.map_err(refused).context("stage")?;
    volume.publish().await.map_err(refused).context("publish")?;
    let (target, is_block) = (volume.target.clone(), *access == Access::Block);
    let data = target.join("data");
    let written =
        if is_block { content::write_device(&target, 7, DATA)? } else { content::write_file(&data, 7, DATA)? };
    volume.set_client(world.client());
    volume.expand_in_ec2(2).await.map_err(refused).context("expand")?;
    volume.set_client(pod.client());
    // Where the kernel does not let ext4 grow while mounted, it grows at its next stage.
    if *access == Access::Mount("xfs".to_owned()) {
        let now = volume.expand_on_node().await.map_err(refused).context("expand on the node")?;
        ensure!(now == 2 * GIB, "{now} bytes after growth in use");
    }
    volume.unpublish().await.map_err(refused).context("unpublish")?;
    volume.unstage().await.map_err(refused).context("unstage")?;
    volume.stage().await.map_err(refused).context("stage again")?;
    volume.publish().await.map_err(refused).context("publish again")?;
    if is_block {
        ensure!(content::hash_start(&target, DATA)? == written, "the data differ");
    } else {
        ensure!(content::hash_file(&data)? == written, "the data differ");
        let (total, _) = volume.stats().await.map_err(refused).context("statistics")?;
        ensure!(total > GIB * 18 / 10, "{total} bytes after growth");
    }
    volume.unpublish().await.map_err(refused).context("unpublish")?;
    volume.unstage().await.map_err(refused).context("unstage")?;
    volume.set_client(world.client());
    volume.detach().await.map_err(refused).context("detach")?;
    world.client().delete_volume(volume.id()).await.map_err(refused)
}

/// A real containerd runs the image privileged, with a read-only root and the mounts of the chart's DaemonSet. The node
/// uses only the image's own programs, and only the directory of its socket must be writable.
#[test]
fn node_works_from_its_image_in_containerd() {
    with_mounts(|| async {
        let world = World::builder(DRIVER).mode("controller").loop_devices().start().await?;
        let containerd = Containerd::start().await?;
        let file = world.dir().join("image.tar");
        archive(&file).await.context("make the image")?;
        let image = containerd.import(&file).await?;
        ensure!(image == format!("docker.io/library/aws-ebs-csi-driver:v{}", env!("CARGO_PKG_VERSION")), "{image}");
        let pod = ImagePod::start(&containerd, &image, &world).await?;
        for access in [Access::Mount("ext4".to_owned()), Access::Mount("xfs".to_owned()), Access::Block] {
            let lived = life(&world, &pod, &access).await;
            lived.with_context(|| format!("{access:?}; the node's log ends:\n{}", pod.log_tail()))?;
        }
        pod.stop().await?;
        drop(containerd);
        world.finish().await
    });
}
