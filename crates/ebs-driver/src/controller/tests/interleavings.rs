use super::*;
use crate::operation::Key;

/// Runs `first` until it calls an action. Then runs `second` to its end, and lets `first` continue.
async fn beside<T, U>(
    world: &World,
    action: Action,
    first: impl Future<Output = T>,
    second: impl Future<Output = U>,
) -> (T, U) {
    let gate = world.ec2.hold(action);
    let second = async {
        gate.reached().await;
        let ended = second.await;
        gate.release();
        ended
    };
    within("both", async { tokio::join!(first, second) }).await
}

/// The driver calls CreateVolume once.
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

/// A request with the terms in another order joins the first request.
#[tokio::test(start_paused = true)]
async fn request_with_reordered_topology_terms_joins_the_first() {
    let world = World::start().await;
    let zone = |z: &str| csi::Topology { segments: map(&[("topology.kubernetes.io/zone", z)]) };
    let request = |zones: [&str; 2]| {
        let [requisite, preferred] = [(); 2].map(|()| zones.map(zone).to_vec());
        let requirement = csi::TopologyRequirement { requisite, preferred };
        CreateVolumeRequest { accessibility_requirements: Some(requirement), ..named("pvc-1") }
    };
    let gate = world.ec2.hold(Action::CreateVolume);
    let second = async {
        gate.reached().await;
        tokio::join!(world.create(request(["us-west-2b", HERE])), async { gate.release() }).0
    };
    let first = world.create(request([HERE, "us-west-2b"]));
    let (first, second) = within("both", async { tokio::join!(first, second) }).await;
    assert_eq!(first, second);
    assert!(first.is_ok());
}

/// Depending on the RPC, the key is the name of a new volume or snapshot, a volume, or a volume and a node.
#[tokio::test(start_paused = true)]
async fn different_request_for_a_key_in_use_is_aborted() {
    let world = World::start().await;
    let other = with_parameters(named("pvc-1"), &[("type", "gp2")]);
    let (created, second) =
        beside(&world, Action::CreateVolume, world.create(named("pvc-1")), world.create(other)).await;
    refused(second, "Aborted", "pvc-1");
    created.expect("created");
    let volume = world.volume("pvc-2").await;
    let [node, elsewhere] = [world.here.as_str(), world.elsewhere.as_str()];
    let others = async { tokio::join!(world.unpublish(&volume, node), world.publish(&volume, elsewhere)) };
    let (published, (unpublished, to_another_node)) =
        beside(&world, Action::AttachVolume, world.publish(&volume, node), others).await;
    refused(unpublished, "Aborted", &volume);
    // A request for another node has another key, so it does not fail with Aborted.
    refused(to_another_node, "FailedPrecondition", "zone");
    published.expect("attached");
    let (unpublished, published) =
        beside(&world, Action::DetachVolume, world.unpublish(&volume, node), world.publish(&volume, node)).await;
    refused(published, "Aborted", &volume);
    unpublished.expect("detached");
    let (deleted, grown) = beside(&world, Action::DeleteVolume, world.delete(&volume), world.grow(&volume, 8)).await;
    refused(grown, "Aborted", &volume);
    deleted.expect("deleted");
}

/// The attachment must not succeed after the detach.
#[tokio::test(start_paused = true)]
async fn unpublish_takes_over_from_a_publish_whose_client_has_left() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    let gate = world.ec2.hold(Action::AttachVolume);
    leave_when(world.publish(&volume, node), gate.reached()).await;
    let attach = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(!world.mutations().contains(&Action::DetachVolume), "not beside the attach");
        gate.release();
    };
    let (unpublished, ()) =
        within("the unpublish", async { tokio::join!(world.unpublish(&volume, node), attach) }).await;
    unpublished.expect("detached");
    assert!(!world.is_attached().await);
    let mutations = world.mutations();
    assert_eq!(mutations.last(), Some(&Action::DetachVolume), "no late attach: {mutations:?}");
}

#[tokio::test(start_paused = true)]
async fn publish_whose_client_has_left_attaches_nothing() {
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

/// A request with the same content joins the running one, and a request with other content fails with Aborted. Two
/// simultaneous deletions of a snapshot also join.
#[tokio::test(start_paused = true)]
async fn concurrent_requests_for_a_snapshot_name_take_one_snapshot() {
    let world = World::start().await;
    let (one, other) = (world.volume("pvc-1").await, world.volume("pvc-2").await);
    let (first, equal, different) = tokio::join!(
        world.take("snapshot-1", &one, &[]),
        world.take("snapshot-1", &one, &[]),
        world.take("snapshot-1", &other, &[]),
    );
    let first = first.expect("taken");
    assert_eq!(equal.expect("joined"), first);
    refused(different, "Aborted", "snapshot-1");
    let id = &first.snapshot_id;
    let deleted = tokio::join!(world.delete_snapshot(id), world.delete_snapshot(id));
    assert_eq!(deleted, (Ok(()), Ok(())));
    assert_eq!((world.ec2.count(Action::CreateSnapshot), world.ec2.count(Action::DeleteSnapshot)), (1, 1));
}
