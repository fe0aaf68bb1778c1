//! Tests a volume's whole life under the cluster-scoped policy. The demo (`xtask/src/demo.rs`) covers the managed
//! policy. Needs root.

use std::time::Duration;

use ebs_testkit::csi_client::{Access, new_volume, restored_volume};
use ebs_testkit::world::{Shipped, World, with_mounts};

const DRIVER: &str = env!("CARGO_BIN_EXE_aws-ebs-csi-driver");
const BOUND: Duration = Duration::from_secs(180);

/// The cluster-scoped policy alone permits everything from creation to deletion, with snapshot, restore and expansion.
#[test]
fn cluster_scoped_policy_allows_the_whole_volume_lifecycle() {
    with_mounts(|| async {
        let world = World::builder(DRIVER)
            .loop_devices()
            .arg("--k8s-tag-cluster-id=blue")
            .under(Shipped::ClusterScoped)
            .principal_tag("eks-cluster-name", "blue")
            .start_without_driver();
        let mut world = world.await?;
        // The policy also checks tags that EKS sets on the instance.
        world.tag_instances("eks:cluster-name", "blue").await?;
        world.start_driver().await?;
        let (client, ext4) = (world.client(), Access::Mount("ext4".to_owned()));
        let volume = client.create_volume(new_volume("pvc-blue", 1, &ext4)).await?;
        let mut volume = world.on_node(volume, &ext4).await?;
        volume.bring_up().await?;
        let snapshot = client.snapshot_ready("snapshot-blue", volume.id(), BOUND).await?;
        let restored = client.create_volume(restored_volume("pvc-again", 1, &ext4, &snapshot.snapshot_id)).await?;
        volume.expand_in_ec2(2).await?;
        volume.take_down().await?;
        client.delete_snapshot(&snapshot.snapshot_id).await?;
        for id in [volume.id(), &restored.volume_id] {
            client.delete_volume(id).await?;
        }
        world.finish().await
    });
}
