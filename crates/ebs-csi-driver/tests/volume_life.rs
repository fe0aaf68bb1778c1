//! A volume's whole life over the driver's socket, as an orchestrator would drive it, on real block devices and without
//! Kubernetes. Needs root. Every test has its own mount namespace.

use std::os::unix::fs::FileTypeExt;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, ensure};
use csi_proto::csi;
use ebs_sim::iam::Shipped;
use ebs_testkit::content;
use ebs_testkit::csi_client::{Access, GIB, new_volume, restored_volume};
use ebs_testkit::leftovers::Leftovers;
use ebs_testkit::on_node::VolumeOnNode;
use ebs_testkit::world::{World, WorldBuilder, with_mounts};
use ebs_testkit::writer::Writer;

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const DATA: u64 = 8 << 20;
const BOUND: Duration = Duration::from_secs(180);

/// Every life runs with the permissions of the managed policy.
fn world() -> WorldBuilder {
    World::builder(DRIVER).under(Shipped::ManagedV2)
}

fn ext4() -> Access {
    Access::Mount("ext4".to_owned())
}

fn xfs() -> Access {
    Access::Mount("xfs".to_owned())
}

/// Returns whether the size fits a volume of `gib` GiB: file-system metadata takes at most a tenth of it.
fn is_about(total: i64, gib: i64) -> bool {
    total > gib * GIB / 10 * 9 && total <= gib * GIB
}

/// The life (create, attach, stage, publish, snapshot, restore larger, delete) runs over gRPC without a Kubernetes
/// environment and leaves nothing behind.
#[test]
fn ext4_volume_completes_life_with_larger_restore() {
    with_mounts(|| life_with_a_restore(ext4()));
}

/// The volume and its restored copy, which have equal UUIDs, are mounted on one node at once.
#[test]
fn xfs_volume_completes_life_with_larger_restore() {
    with_mounts(|| life_with_a_restore(xfs()));
}

async fn life_with_a_restore(access: Access) -> anyhow::Result<()> {
    let world = world().loop_devices().start().await?;
    let client = world.client();
    let volume = client.create_volume(new_volume("pvc-life", 1, &access)).await?;
    ensure!(volume.capacity_bytes == GIB, "capacity {}", volume.capacity_bytes);
    let zone = volume.accessible_topology.first().context("a topology")?.segments.get("topology.kubernetes.io/zone");
    ensure!(zone.is_some_and(|zone| zone == "us-west-2a"), "zone {zone:?}");

    let mut original = world.on_node(volume, &access).await?;
    original.bring_up().await?;
    let file = original.target.join("data");
    let written = content::write_file(&file, 1, DATA)?;
    let (total, used) = original.stats().await?;
    ensure!(is_about(total, 1) && used >= DATA.cast_signed(), "stats: {used} of {total} bytes");

    let snapshot = client.snapshot_ready("snapshot-life", original.id(), BOUND).await?;
    ensure!(snapshot.source_volume_id == original.id(), "snapshot of {}", snapshot.source_volume_id);
    let restored = restored_volume("pvc-restored", 2, &access, &snapshot.snapshot_id);
    let restored = client.create_volume(restored).await?;
    let mut restored = world.on_node(restored, &access).await?;
    // Both are mounted at once: an xfs clone has the UUID of its origin.
    restored.bring_up().await?;
    ensure!(content::hash_file(&restored.target.join("data"))? == written, "the restored data differ");
    let (total, _) = restored.stats().await?;
    ensure!(is_about(total, 2), "the restored file system has {total} bytes, its volume 2 GiB");
    ensure!(content::hash_file(&file)? == written, "the original changed");

    restored.take_down().await?;
    original.take_down().await?;
    client.delete_volume(restored.id()).await?;
    client.delete_snapshot(&snapshot.snapshot_id).await?;
    client.delete_volume(original.id()).await?;
    world.finish().await
}

/// The growth does not disturb a process that writes at the same time.
#[test]
fn xfs_volume_grows_online_during_writes() {
    with_mounts(|| async {
        let world = world().loop_devices().start().await?;
        let volume = world.client().create_volume(new_volume("pvc-grows", 1, &xfs())).await?;
        let mut volume = world.on_node(volume, &xfs()).await?;
        volume.bring_up().await?;
        let file = volume.target.join("stream");
        let writer = Writer::start(file.clone());
        writer.progress().await?;
        ensure!(volume.expand_in_ec2(3).await?, "the node must follow");
        ensure!(volume.volume.capacity_bytes == 3 * GIB, "capacity {}", volume.volume.capacity_bytes);
        ensure!(volume.expand_on_node().await? == 3 * GIB, "the node reports another capacity");
        writer.progress().await?;
        let last = writer.end().await?;
        ensure!(content::hash_file(&file)? == last, "what was written last is not what is read");
        let (total, _) = volume.stats().await?;
        ensure!(is_about(total, 3), "{total} bytes after growing to 3 GiB");
        volume.take_down().await?;
        world.client().delete_volume(volume.id()).await?;
        world.finish().await
    });
}

/// The statistics show its size, and it grows without the node's help.
#[test]
fn block_volume_keeps_data_over_detach_and_grows() {
    with_mounts(|| async {
        let world = world().loop_devices().start().await?;
        let volume = world.client().create_volume(new_volume("pvc-block", 1, &Access::Block)).await?;
        let mut volume = world.on_node(volume, &Access::Block).await?;
        volume.bring_up().await?;
        let is_device = |path: &Path| path.metadata().map(|meta| meta.file_type().is_block_device());
        ensure!(is_device(&volume.target)?, "the target is no block device");
        ensure!(content::size_of(&volume.target)? == GIB.cast_unsigned(), "the device has another size");
        let written = content::write_device(&volume.target, 3, DATA)?;
        let (total, _) = volume.stats().await?;
        ensure!(total == GIB, "stats show {total} bytes");
        volume.take_down().await?;
        ensure!(!volume.target.exists(), "the target file is left");
        volume.bring_up().await?;
        ensure!(content::hash_start(&volume.target, DATA)? == written, "the data differ after another attachment");
        ensure!(!volume.expand_in_ec2(2).await?, "a block volume needs nothing of the node");
        ensure!(content::size_of(&volume.target)? == 2 * GIB.cast_unsigned(), "the device did not grow");
        volume.take_down().await?;
        world.client().delete_volume(volume.id()).await?;
        world.finish().await
    });
}

/// The repetition succeeds, changes nothing and makes no second mutating call.
#[test]
fn repeated_step_of_life_changes_nothing() {
    with_mounts(|| async {
        let world = world().loop_devices().start().await?;
        let client = world.client();
        let volume = client.create_volume(new_volume("pvc-again", 1, &ext4())).await?;
        let again = client.create_volume(new_volume("pvc-again", 1, &ext4())).await?;
        ensure!(volume == again, "{volume:?} and {again:?}");
        let mut volume = world.on_node(volume, &ext4()).await?;
        volume.attach().await?;
        let context = volume.publish_context.clone();
        volume.attach().await?;
        ensure!(volume.publish_context == context, "{context:?} became {:?}", volume.publish_context);
        volume.stage().await?;
        volume.stage().await?;
        volume.publish().await?;
        let before = Leftovers::below(world.dir())?;
        volume.publish().await?;
        ensure!(Leftovers::below(world.dir())? == before, "a second publish mounted something");
        let snapshot = client.snapshot_ready("snapshot-again", volume.id(), BOUND).await?;
        ensure!(client.create_snapshot("snapshot-again", volume.id()).await? == snapshot, "another snapshot");
        let position = world.control().position().await?;
        for _ in 0..2 {
            volume.unpublish().await?;
        }
        for _ in 0..2 {
            volume.unstage().await?;
        }
        for _ in 0..2 {
            volume.detach().await?;
        }
        for _ in 0..2 {
            client.delete_snapshot(&snapshot.snapshot_id).await?;
            client.delete_volume(volume.id()).await?;
        }
        let calls = world.calls_since(position).await?;
        for action in ["DetachVolume", "DeleteSnapshot", "DeleteVolume"] {
            ensure!(calls.done(action) == 1, "{action}: {}", calls.summary());
        }
        world.finish().await
    });
}

/// The node reports the health of a volume at a path or, without one in the request, by its mounts or device. A volume
/// that is not on the node is NotFound.
#[test]
fn health_of_volume_is_found_with_and_without_path() {
    with_mounts(|| async {
        let world = world().loop_devices().start().await?;
        let health = |volume: &VolumeOnNode, path: &Path| {
            let request = csi::NodeGetVolumeHealthRequest {
                volume_id: volume.id().to_owned(),
                volume_publish_path: path.to_string_lossy().into_owned(),
                ..Default::default()
            };
            let mut node = world.client().node();
            async move { node.node_get_volume_health(request).await }
        };
        for access in [ext4(), Access::Block] {
            let volume = world.client().create_volume(new_volume(&format!("pvc-{access:?}"), 1, &access)).await?;
            let mut volume = world.on_node(volume, &access).await?;
            let status = health(&volume, Path::new("")).await.err().context("a volume that is not here")?;
            ensure!(status.code() == tonic::Code::NotFound && status.message().contains(volume.id()), "{status:?}");
            volume.bring_up().await?;
            for path in [Path::new(""), &volume.target.clone()] {
                let answer = health(&volume, path).await?.into_inner().volume_health.context("a health")?;
                ensure!(answer.volume_id == volume.id() && answer.health_statuses.is_empty(), "{answer:?}");
            }
            volume.take_down().await?;
            world.client().delete_volume(volume.id()).await?;
        }
        world.finish().await
    });
}

/// The cluster-scoped policy alone allows a whole life with snapshot, restore and expansion.
#[test]
fn cluster_scoped_policy_allows_whole_life() {
    with_mounts(|| async {
        let world = World::builder(DRIVER)
            .loop_devices()
            .arg("--k8s-tag-cluster-id=blue")
            .under(Shipped::ClusterScoped)
            .principal_tag("eks-cluster-name", "blue")
            .start_without_driver();
        let mut world = world.await?;
        // The policy also checks tags of the instance, which EKS sets.
        world.tag_instances("eks:cluster-name", "blue").await?;
        world.start_driver().await?;
        let client = world.client();
        let volume = client.create_volume(new_volume("pvc-blue", 1, &ext4())).await?;
        let mut volume = world.on_node(volume, &ext4()).await?;
        volume.bring_up().await?;
        let snapshot = client.snapshot_ready("snapshot-blue", volume.id(), BOUND).await?;
        let restored = client.create_volume(restored_volume("pvc-again", 1, &ext4(), &snapshot.snapshot_id)).await?;
        volume.expand_in_ec2(2).await?;
        volume.take_down().await?;
        client.delete_snapshot(&snapshot.snapshot_id).await?;
        for id in [volume.id(), &restored.volume_id] {
            client.delete_volume(id).await?;
        }
        world.finish().await
    });
}
