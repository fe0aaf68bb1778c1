//! Tests clients that wait only a few seconds and call again after growing pauses. Each of their requests eventually
//! succeeds, or fails with its own error.

use ebs_ec2::ErrorClass;
use ebs_sim::engine::BurntToken;
use ebs_sim::faults::{Effect, Rule};
use ebs_sim::iam::Extra;
use tokio::time::{Instant, sleep, timeout};

use super::*;

/// The timeouts of the official sidecars in seconds, and shorter ones.
const DEADLINES: [u64; 6] = [1, 2, 5, 8, 10, 15];
/// The maximum number of calls for one request. A request that needs more makes no progress: each call repeats the work
/// of the previous one. The window that gathers changes can use up one of the calls.
const MOST_CALLS: u32 = 9;
const LOST: [bool; 2] = [true, false];
const ENDLESS: u64 = 100_000_000;

/// Calls as a sidecar does: gives up after `seconds`, doubles the pause before each next call, and ends with the first
/// success or final code.
async fn insist<T>(seconds: u64, mut call: impl AsyncFnMut() -> Result<T, Refused>) -> Result<T, Refused> {
    let mut pause = Duration::from_secs(1);
    let mut heard = Vec::new();
    for _ in 0..MOST_CALLS {
        match timeout(Duration::from_secs(seconds), call()).await {
            Ok(Err(refused)) if ["Aborted", "Unavailable"].contains(&refused.code.as_str()) => {
                heard.push(refused.message);
            }
            Ok(answer) => return answer,
            Err(_given_up) => heard.push("gave up".to_owned()),
        }
        sleep(pause).await;
        pause *= 2;
    }
    panic!("no answer by {MOST_CALLS} calls of {seconds} s: {heard:#?}");
}

/// Runs a scenario for each deadline and each variant, in a world whose EC2 takes as long as the real EC2.
async fn for_all<V: Copy>(variants: &[V], scenario: impl AsyncFn(World, u64, V)) {
    for seconds in DEADLINES {
        for variant in variants {
            let world = World::start().await;
            realistic(&world).await;
            scenario(world, seconds, *variant).await;
        }
    }
}

/// Delays each mutating call, as EC2 does.
async fn realistic(world: &World) {
    for (action, ms) in [
        ("CreateVolume", 600),
        ("DeleteVolume", 600),
        ("ModifyVolume", 600),
        ("CreateSnapshot", 600),
        ("DeleteSnapshot", 600),
        ("LockSnapshot", 600),
        ("EnableFastSnapshotRestores", 500),
    ] {
        let rule = Rule::new(Effect::DelayReply { ms, spread_ms: 0 }).on(action);
        world.ec2.faults().add(rule).expect("a rule");
    }
    world.timing(TimingOverride { create_ms: Some(2_000), modify_ms: Some(4_000), ..Default::default() }).await;
}

#[tokio::test(start_paused = true)]
async fn volume_is_created_once_after_a_lost_first_reply() {
    for_all(&LOST, async |world, seconds, done| {
        world.ec2.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, done);
        insist(seconds, async || world.create(named("pvc-1")).await).await.expect("created");
        assert_eq!(world.volumes().await.len(), 1, "{seconds} s, done: {done}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn new_driver_finishes_the_volume_creation_of_a_dead_one() {
    for_all(&[()], async |mut world, seconds, ()| {
        // The driver process dies after EC2 has accepted the request.
        let gate = world.ec2.hold(Action::DescribeVolumes);
        leave_when(world.create(named("pvc-1")), gate.reached()).await;
        world.replace_driver();
        insist(seconds, async || world.create(named("pvc-1")).await).await.expect("created");
        assert_eq!(world.volumes().await.len(), 1, "{seconds} s");
        gate.release();
    })
    .await;
}

/// The client gets the error for a missing permission, a missing source or volume, and a rejected lock. A rejected lock
/// leaves no snapshot.
#[tokio::test(start_paused = true)]
async fn rejected_request_is_reported_for_any_client_deadline() {
    for_all(&[()], async |world, seconds, ()| {
        for _ in 0..MOST_CALLS {
            world.ec2.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
        }
        let refusal = insist(seconds, async || world.create(in_zone(named("pvc-1"), HERE)).await).await;
        refused(refusal, "PermissionDenied", "create volume");
        let clone = from_volume(named("pvc-2"), NO_VOLUME);
        refused(insist(seconds, async || world.create(clone.clone()).await).await, "NotFound", NO_VOLUME);
        refused(insist(seconds, async || world.take("a", NO_VOLUME, &[]).await).await, "NotFound", NO_VOLUME);
        refused(insist(seconds, async || world.grow(NO_VOLUME, 16).await).await, "NotFound", NO_VOLUME);
    })
    .await;
    for_all(&[()], async |world, seconds, ()| {
        let volume = world.volume("pvc-1").await;
        for _ in 0..2 * MOST_CALLS {
            world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
        }
        let lock = [("lockMode", "governance"), ("lockDuration", "3")];
        let refusal = insist(seconds, async || world.take("a", &volume, &lock).await).await;
        refused(refusal, "PermissionDenied", "lock snapshot");
        assert_eq!(world.snapshots().await, 0, "{seconds} s");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn kms_key_that_makes_volumes_disappear_is_reported() {
    for seconds in DEADLINES {
        for burnt_token in [BurntToken::Mismatch, BurntToken::OldReply] {
            let world = World::with(EngineConfig { burnt_token, ..EngineConfig::default() }).await;
            realistic(&world).await;
            world.ec2.declare(Extra::Kms);
            let request = with_parameters(named("pvc-1"), &[("encrypted", "true"), ("kmsKeyId", "no-such-key")]);
            let refusal = insist(seconds, async || world.create(request.clone()).await).await;
            refused(refusal, "FailedPrecondition", "no-such-key");
            let orders = world.mutations().into_iter().filter(|a| *a == Action::CreateVolume).count();
            assert!(orders <= 2, "{orders} orders at {seconds} s, {burnt_token:?}");
        }
    }
}

/// The client does not get the first reply, or the reply proves nothing.
#[tokio::test(start_paused = true)]
async fn volume_and_snapshot_are_deleted_after_any_first_reply() {
    use ErrorClass::{Ambiguous, SnapshotNotFound, VolumeNotFound};
    let replies =
        [(Ambiguous, Ambiguous, true), (Ambiguous, Ambiguous, false), (VolumeNotFound, SnapshotNotFound, false)];
    let variants = replies.map(|reply| LOST.map(|dies| (reply, dies)));
    for_all(variants.as_flattened(), async |mut world, seconds, ((of_volume, of_snapshot, done), dies)| {
        let volume = world.volume("pvc-1").await;
        world.ec2.fail_next(Action::DeleteVolume, of_volume, done);
        if dies {
            world.replace_driver();
        }
        insist(seconds, async || world.delete(&volume).await).await.expect("deleted");
        assert!(world.volumes().await.iter().all(|v| v.state == "deleting"), "{seconds} s, {of_volume:?} {done}");
        let volume = world.volume("pvc-2").await;
        let id = world.take("a", &volume, &[]).await.expect("taken").snapshot_id;
        world.ec2.fail_next(Action::DeleteSnapshot, of_snapshot, done);
        if dies {
            world.replace_driver();
        }
        insist(seconds, async || world.delete_snapshot(&id).await).await.expect("deleted");
        assert_eq!(world.snapshots().await, 0, "{seconds} s, {of_snapshot:?} {done}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn snapshot_is_taken_once_with_lock_and_fast_restores() {
    let features = [("fastSnapshotRestoreAvailabilityZones", HERE), ("lockMode", "governance"), ("lockDuration", "3")];
    let lost = [
        (Action::CreateSnapshot, true),
        (Action::CreateSnapshot, false),
        (Action::EnableFastSnapshotRestores, false),
        (Action::LockSnapshot, true),
        (Action::LockSnapshot, false),
    ];
    let variants = lost.map(|(lost, done)| LOST.map(|dies| (lost, done, dies)));
    for_all(variants.as_flattened(), async |mut world, seconds, (lost, done, dies)| {
        world.ec2.declare(Extra::SnapshotLocks);
        let volume = world.volume("pvc-1").await;
        world.ec2.fail_next(lost, ErrorClass::Ambiguous, done);
        if dies {
            let _first = timeout(Duration::from_secs(seconds), world.take("a", &volume, &features)).await;
            world.replace_driver();
        }
        insist(seconds, async || world.take("a", &volume, &features).await).await.expect("taken");
        assert_eq!(world.snapshots().await, 1, "{seconds} s, {lost:?} {done}, dies: {dies}");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn volume_is_expanded_once_after_a_lost_first_reply() {
    let variants = LOST.map(|done| LOST.map(|dies| (done, dies)));
    for_all(variants.as_flattened(), async |mut world, seconds, (done, dies)| {
        let volume = world.volume("pvc-1").await;
        world.ec2.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, done);
        if dies {
            let _first = timeout(Duration::from_secs(seconds), world.grow(&volume, 8)).await;
            world.replace_driver();
        }
        let size = insist(seconds, async || world.grow(&volume, 8).await).await;
        assert_eq!(size, Ok(8), "{seconds} s, done: {done}, dies: {dies}");
        sleep(Duration::from_secs(60)).await;
        world.ec2.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, done);
        let class = [("iops", "4000"), ("tagSpecification_1", "team=red")];
        let changed = insist(seconds, async || world.modify(&volume, &class).await).await;
        assert_eq!(changed, Ok(()), "{seconds} s, done: {done}, dies: {dies}");
        let volume = world.volumes().await.remove(0);
        assert_eq!((volume.iops, volume.tags["team"].as_str()), (Some(4000), "red"));
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn expansion_during_optimization_is_refused_with_the_reason() {
    for_all(&[()], async |world, seconds, ()| {
        world.timing(TimingOverride { optimize_ms: Some(3_600_000), ..Default::default() }).await;
        let volume = world.volume("pvc-1").await;
        world.grow(&volume, 8).await.expect("grown");
        sleep(Duration::from_secs(60)).await;
        let refusal = insist(seconds, async || world.grow(&volume, 16).await).await;
        refused(refusal, "FailedPrecondition", "being optimized");
    })
    .await;
}

/// A previous driver process attached the volume.
#[tokio::test(start_paused = true)]
async fn existing_attachment_is_published_for_any_client_deadline() {
    for_all(&[0, 5, 20], async |mut world, seconds, age| {
        let volume = world.volume("pvc-1").await;
        let first = world.publish(&volume, world.here.as_str()).await.expect("attached");
        sleep(Duration::from_secs(age)).await;
        world.restart();
        let again = insist(seconds, async || world.publish(&volume, world.here.as_str()).await).await;
        assert_eq!(again, Ok(first), "{seconds} s, attached for {age} s");
    })
    .await;
}

/// This driver process or a previous one attached the volume.
#[tokio::test(start_paused = true)]
async fn recent_attachment_is_unpublished_for_any_client_deadline() {
    let variants = [(false, 0), (false, 3), (true, 0), (true, 3), (true, 200)];
    for_all(&variants, async |mut world, seconds, (restarted, age)| {
        let volume = world.volume("pvc-1").await;
        world.publish(&volume, world.here.as_str()).await.expect("attached");
        sleep(Duration::from_secs(age)).await;
        if restarted {
            world.restart();
        }
        insist(seconds, async || world.unpublish(&volume, world.here.as_str()).await).await.expect("detached");
        assert!(!world.is_attached().await, "{seconds} s, attached for {age} s");
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn attach_and_detach_with_lost_replies_succeed_for_any_deadline() {
    for_all(&LOST, async |world, seconds, done| {
        let volume = world.volume("pvc-1").await;
        world.ec2.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, done);
        insist(seconds, async || world.publish(&volume, world.here.as_str()).await).await.expect("attached");
        assert!(world.is_attached().await);
        sleep(Duration::from_secs(40)).await;
        world.ec2.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, done);
        insist(seconds, async || world.unpublish(&volume, world.here.as_str()).await).await.expect("detached");
        assert!(!world.is_attached().await);
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn stuck_attachment_is_replaced_for_any_client_deadline() {
    for seconds in [10, 15] {
        for restarted in [false, true] {
            let (mut world, volume) = abandoned_publish(seconds).await;
            sleep(Duration::from_secs(100)).await;
            if restarted {
                world.restart();
            }
            // EC2 attaches the next volume immediately.
            world.timing(TimingOverride { attach_ms: Some(0), ..Default::default() }).await;
            insist(seconds, async || world.publish(&volume, world.here.as_str()).await).await.expect("publish");
            assert!(world.is_attached().await);
        }
    }
}

/// Returns a world with a volume whose attachment never succeeds. The client of its ControllerPublishVolume call has
/// given up.
async fn abandoned_publish(seconds: u64) -> (World, String) {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.timing(TimingOverride { attach_ms: Some(ENDLESS), ..Default::default() }).await;
    let publish = world.publish(&volume, world.here.as_str());
    assert!(timeout(Duration::from_secs(seconds), publish).await.is_err());
    (world, volume)
}

/// The client of ControllerPublishVolume has given up, so its operation only sends describe calls.
#[tokio::test(start_paused = true)]
async fn unpublish_takes_over_at_once_from_an_abandoned_publish() {
    let (world, volume) = abandoned_publish(5).await;
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.operations.running().len(), 1, "it still describes");
    let began = Instant::now();
    let gate = world.ec2.hold(Action::DetachVolume);
    leave_when(world.unpublish(&volume, world.here.as_str()), gate.reached()).await;
    assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn publish_takes_over_at_once_from_an_abandoned_unpublish() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.publish(&volume, node).await.expect("attached");
    world.timing(TimingOverride { detach_ms: Some(50_000), ..Default::default() }).await;
    assert!(timeout(Duration::from_secs(5), world.unpublish(&volume, node)).await.is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.operations.running().len(), 1, "it still describes");
    world.timing(TimingOverride { detach_ms: Some(0), ..Default::default() }).await;
    let gate = world.ec2.hold(Action::AttachVolume);
    let began = Instant::now();
    let attach = async {
        gate.reached().await;
        assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
        gate.release();
    };
    let (published, ()) = within("the publish", async { tokio::join!(world.publish(&volume, node), attach) }).await;
    published.expect("attached, after the detach");
    assert!(world.is_attached().await);
}

#[tokio::test(start_paused = true)]
async fn queued_publish_whose_client_has_left_attaches_nothing() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.publish(&volume, node).await.expect("attached");
    sleep(Duration::from_secs(20)).await;
    world.timing(TimingOverride { detach_ms: Some(30_000), ..Default::default() }).await;
    assert!(timeout(Duration::from_secs(1), world.unpublish(&volume, node)).await.is_err());
    // The driver refuses the first call while the volume detaches. The next call waits for the detachment, and its
    // client disconnects.
    assert!(timeout(Duration::from_secs(5), world.publish(&volume, node)).await.is_err());
    world.ec2.clear_calls();
    sleep(Duration::from_secs(120)).await;
    assert!(world.operations.running().is_empty());
    assert_eq!((world.mutations(), world.is_attached().await), (Vec::new(), false));
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_an_operation_that_only_describes() {
    let (world, _) = abandoned_publish(5).await;
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.operations.running().len(), 1, "it still describes");
    let began = Instant::now();
    assert!(world.operations.drain(Duration::from_secs(20)).await.is_empty());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
