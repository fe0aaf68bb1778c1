use std::time::Duration;

use super::*;
use crate::operation::Key;

/// With a single CreateVolume call.
#[tokio::test(start_paused = true)]
async fn client_that_leaves_during_create_gets_one_volume_on_retry() {
    let world = World::start().await;
    let gate = world.ec2.hold(Action::CreateVolume);
    leave_when(world.create(named("pvc-1")), gate.reached()).await;
    assert_eq!(world.operations.running(), [Key::CreateVolume("pvc-1".to_owned())]);
    let (again, ()) =
        within("the retry", async { tokio::join!(world.create(named("pvc-1")), async { gate.release() }) }).await;
    let again = again.expect("joined");
    let volumes = world.volumes().await;
    assert_eq!((volumes.len(), volumes[0].id.as_str()), (1, again.volume_id.as_str()));
    assert_eq!(world.mutations(), [Action::CreateVolume]);
}

/// The request is the same.
#[tokio::test(start_paused = true)]
async fn order_of_topology_terms_is_irrelevant() {
    let world = World::start().await;
    let zone = |z: &str| csi::Topology { segments: map(&[("topology.kubernetes.io/zone", z)]) };
    let request = |zones: [&str; 2]| CreateVolumeRequest {
        accessibility_requirements: Some(csi::TopologyRequirement {
            requisite: zones.map(zone).to_vec(),
            preferred: zones.map(zone).to_vec(),
        }),
        ..named("pvc-1")
    };
    let gate = world.ec2.hold(Action::CreateVolume);
    let (first, second) = within("both", async {
        tokio::join!(world.create(request(["us-west-2a", "us-west-2b"])), async {
            gate.reached().await;
            let (second, ()) =
                tokio::join!(world.create(request(["us-west-2b", "us-west-2a"])), async { gate.release() });
            second
        })
    })
    .await;
    assert_eq!(first, second);
    assert!(first.is_ok());
}

#[tokio::test(start_paused = true)]
async fn different_request_for_a_name_in_creation_is_aborted() {
    let world = World::start().await;
    let gate = world.ec2.hold(Action::CreateVolume);
    let first = within("the first", async {
        let (first, ()) = tokio::join!(world.create(named("pvc-1")), async {
            gate.reached().await;
            let other = with_parameters(named("pvc-1"), &[("type", "gp2")]);
            refused(world.create(other).await, "Aborted", "pvc-1");
            gate.release();
        });
        first
    })
    .await;
    assert!(first.is_ok());
}

/// The attachment of the Publish must not succeed after the detach.
#[tokio::test(start_paused = true)]
async fn unpublish_takes_over_from_a_publish_without_client() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    let gate = world.ec2.hold(Action::AttachVolume);
    leave_when(world.publish(&volume, node), gate.reached()).await;
    let (unpublished, ()) = within("the unpublish", async {
        tokio::join!(world.unpublish(&volume, node), async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert!(!world.mutations().contains(&Action::DetachVolume), "not beside the attach");
            gate.release();
        })
    })
    .await;
    unpublished.expect("detached");
    assert!(world.volumes().await[0].attachments.is_empty());
    let mutations = world.mutations();
    assert_eq!(mutations.last(), Some(&Action::DetachVolume), "no late attach: {mutations:?}");
}

#[tokio::test(start_paused = true)]
async fn publish_without_client_attaches_nothing() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let gate = world.ec2.hold(Action::DescribeInstances);
    leave_when(world.publish(&volume, world.here.as_str()), gate.reached()).await;
    gate.release();
    within("the operation ends", async {
        while !world.operations.running().is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
    assert_eq!(world.mutations(), [Action::CreateVolume]);
    world.publish(&volume, world.here.as_str()).await.expect("a later publish attaches");
}

/// Publish during Unpublish, and Unpublish during a Publish with a client, are Aborted.
#[tokio::test(start_paused = true)]
async fn awaited_publish_and_unpublish_do_not_interrupt_each_other() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    let gate = world.ec2.hold(Action::AttachVolume);
    let (published, ()) = within("the publish", async {
        tokio::join!(world.publish(&volume, node), async {
            gate.reached().await;
            refused(world.unpublish(&volume, node).await, "Aborted", &volume);
            gate.release();
        })
    })
    .await;
    published.expect("attached");
    let gate = world.ec2.hold(Action::DetachVolume);
    let (unpublished, ()) = within("the unpublish", async {
        tokio::join!(world.unpublish(&volume, node), async {
            gate.reached().await;
            refused(world.publish(&volume, node).await, "Aborted", &volume);
            gate.release();
        })
    })
    .await;
    unpublished.expect("detached");
}

#[tokio::test(start_paused = true)]
async fn publishes_of_one_volume_to_several_nodes_do_not_collide() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let gate = world.ec2.hold(Action::AttachVolume);
    let (here, ()) = within("both", async {
        tokio::join!(world.publish(&volume, world.here.as_str()), async {
            gate.reached().await;
            let other = world.publish(&volume, world.elsewhere.as_str()).await.expect_err("another zone");
            assert_ne!(other.code, "Aborted", "{other:?}");
            gate.release();
        })
    })
    .await;
    here.expect("attached");
}

#[tokio::test(start_paused = true)]
async fn growth_during_delete_of_a_volume_is_aborted() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let gate = world.ec2.hold(Action::DeleteVolume);
    let (deleted, ()) = within("the delete", async {
        tokio::join!(world.delete(&volume), async {
            gate.reached().await;
            let request = ControllerExpandVolumeRequest {
                volume_id: volume.clone(),
                capacity_range: Some(CapacityRange { required_bytes: 8 * GIB, limit_bytes: 0 }),
                ..Default::default()
            };
            let grown = world.service.controller_expand_volume(Request::new(request)).await;
            refused(grown.map(drop).map_err(Refused::from), "Aborted", &volume);
            gate.release();
        })
    })
    .await;
    deleted.expect("deleted");
}

/// The code is Unavailable.
#[tokio::test(start_paused = true)]
async fn driver_that_shuts_down_starts_nothing() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.ec2.clear_calls();
    assert!(world.operations.drain(Duration::from_secs(20)).await.is_empty());
    refused(world.create(named("pvc-2")).await, "Unavailable", "shutting down");
    refused(world.publish(&volume, world.here.as_str()).await, "Unavailable", "shutting down");
    refused(world.delete(&volume).await, "Unavailable", "shutting down");
    assert_eq!(world.ec2.calls(), []);
}
