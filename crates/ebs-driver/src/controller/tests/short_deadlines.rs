//! Creations, deletions and growth for clients that wait only a few seconds and call again, with longer pauses. Each
//! request succeeds or fails with its error in the end.

use ebs_ec2::ErrorClass;
use ebs_sim::engine::{BurntToken, TimingOverride};
use ebs_sim::faults::{Effect, Rule};
use ebs_sim::iam::Extra;
use tokio::time::{sleep, timeout};

use super::modifications::modify;
use super::snapshots::take;
use super::*;

/// The timeouts of the official sidecars in seconds, and shorter ones.
const DEADLINES: [u64; 5] = [1, 2, 5, 10, 15];
/// More calls mean that each call repeats the work of the previous one. One call may be spent on the window that
/// gathers changes.
const MOST_CALLS: u32 = 9;

/// Calls like a sidecar: gives up after `seconds`, doubles the pause before each next call, and ends with the first
/// success or final code.
pub(super) async fn insist<T>(seconds: u64, mut call: impl AsyncFnMut() -> Result<T, Refused>) -> Result<T, Refused> {
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

/// Delays each mutating call, as EC2 does.
async fn realistic(world: &World) {
    for action in ["CreateVolume", "DeleteVolume", "ModifyVolume", "CreateSnapshot", "DeleteSnapshot", "LockSnapshot"] {
        let rule = Rule::new(Effect::DelayReply { ms: 600, spread_ms: 0 }).on(action);
        world.ec2.faults().add(rule).expect("a rule");
    }
    let rule = Rule::new(Effect::DelayReply { ms: 500, spread_ms: 0 }).on("EnableFastSnapshotRestores");
    world.ec2.faults().add(rule).expect("a rule");
    let timing = TimingOverride { create_ms: Some(2_000), modify_ms: Some(4_000), ..TimingOverride::default() };
    world.ec2.engine().set_timing(timing).await;
}

async fn expand(world: &World, volume: &str, gib: i64) -> Result<i64, Refused> {
    let request = ControllerExpandVolumeRequest {
        volume_id: volume.to_owned(),
        capacity_range: Some(CapacityRange { required_bytes: gib * GIB, limit_bytes: 0 }),
        ..Default::default()
    };
    let answer = world.service.controller_expand_volume(Request::new(request)).await.map_err(Refused::from)?;
    Ok(answer.into_inner().capacity_bytes)
}

async fn snapshots_there(world: &World) -> usize {
    world.ec2.engine().snapshot_of_state().await.snapshots.len()
}

/// Clients wait 1 to 15 s.
#[tokio::test(start_paused = true)]
async fn volume_is_created_once_after_a_lost_first_reply() {
    for seconds in DEADLINES {
        for done in [true, false] {
            let world = World::start().await;
            realistic(&world).await;
            world.ec2.fail_next(Action::CreateVolume, ErrorClass::Ambiguous, done);
            insist(seconds, async || world.create(named("pvc-1")).await).await.expect("created");
            assert_eq!(world.volumes().await.len(), 1, "{seconds} s, done: {done}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn creation_continues_after_the_death_of_the_driver() {
    for seconds in DEADLINES {
        let mut world = World::start().await;
        realistic(&world).await;
        // The process dies after EC2 has accepted the request.
        let gate = world.ec2.hold(Action::DescribeVolumes);
        leave_when(world.create(named("pvc-1")), gate.reached()).await;
        world.replace_driver();
        insist(seconds, async || world.create(named("pvc-1")).await).await.expect("created");
        assert_eq!(world.volumes().await.len(), 1, "{seconds} s");
        gate.release();
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_creation_is_reported_by_a_new_driver() {
    for seconds in DEADLINES {
        let world = World::start().await;
        realistic(&world).await;
        for _ in 0..MOST_CALLS {
            world.ec2.fail_next(Action::CreateVolume, ErrorClass::Unauthorized, false);
        }
        let refusal = insist(seconds, async || world.create(in_zone(named("pvc-1"), "us-west-2a")).await).await;
        refused(refusal, "PermissionDenied", "create volume");
    }
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

#[tokio::test(start_paused = true)]
async fn missing_source_is_reported() {
    for seconds in DEADLINES {
        let world = World::start().await;
        realistic(&world).await;
        let source = csi::VolumeContentSource {
            r#type: Some(csi::volume_content_source::Type::Volume(csi::volume_content_source::VolumeSource {
                volume_id: "vol-0123456789abcdef0".to_owned(),
            })),
        };
        let request = CreateVolumeRequest { volume_content_source: Some(source), ..named("pvc-1") };
        let refusal = insist(seconds, async || world.create(request.clone()).await).await;
        refused(refusal, "NotFound", "vol-0123456789abcdef0");
    }
}

#[tokio::test(start_paused = true)]
async fn volume_is_deleted_after_any_first_reply() {
    for seconds in DEADLINES {
        for (class, done) in
            [(ErrorClass::Ambiguous, true), (ErrorClass::Ambiguous, false), (ErrorClass::VolumeNotFound, false)]
        {
            for dies in [true, false] {
                let mut world = World::start().await;
                realistic(&world).await;
                let volume = world.volume("pvc-1").await;
                world.ec2.fail_next(Action::DeleteVolume, class, done);
                if dies {
                    world.replace_driver();
                }
                insist(seconds, async || world.delete(&volume).await).await.expect("deleted");
                assert!(world.volumes().await.iter().all(|v| v.state == "deleting"), "{seconds} s, {class:?} {done}");
            }
        }
    }
}

/// Clients wait 1 to 15 s.
#[tokio::test(start_paused = true)]
async fn snapshot_is_taken_once_with_lock_and_fast_restores() {
    let features =
        [("fastSnapshotRestoreAvailabilityZones", "us-west-2a"), ("lockMode", "governance"), ("lockDuration", "3")];
    for seconds in DEADLINES {
        for (lost, done) in [
            (Action::CreateSnapshot, true),
            (Action::CreateSnapshot, false),
            (Action::EnableFastSnapshotRestores, false),
            (Action::LockSnapshot, true),
            (Action::LockSnapshot, false),
        ] {
            for dies in [true, false] {
                let mut world = World::start().await;
                world.ec2.declare(Extra::SnapshotLocks);
                realistic(&world).await;
                let volume = world.volume("pvc-1").await;
                world.ec2.fail_next(lost, ErrorClass::Ambiguous, done);
                if dies {
                    let _first = timeout(Duration::from_secs(seconds), take(&world, "a", &volume, &features)).await;
                    world.replace_driver();
                }
                let taken = insist(seconds, async || take(&world, "a", &volume, &features).await).await;
                taken.expect("taken");
                assert_eq!(snapshots_there(&world).await, 1, "{seconds} s, {lost:?} {done}, dies: {dies}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_lock_is_reported_and_leaves_no_snapshot() {
    for seconds in DEADLINES {
        let world = World::start().await;
        realistic(&world).await;
        let volume = world.volume("pvc-1").await;
        for _ in 0..2 * MOST_CALLS {
            world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
        }
        let lock = [("lockMode", "governance"), ("lockDuration", "3")];
        let refusal = insist(seconds, async || take(&world, "a", &volume, &lock).await).await;
        refused(refusal, "PermissionDenied", "lock snapshot");
        assert_eq!(snapshots_there(&world).await, 0, "{seconds} s");
    }
}

#[tokio::test(start_paused = true)]
async fn rejected_snapshot_is_reported() {
    for seconds in DEADLINES {
        let world = World::start().await;
        realistic(&world).await;
        let refusal = insist(seconds, async || take(&world, "a", "vol-0123456789abcdef0", &[]).await).await;
        refused(refusal, "NotFound", "vol-0123456789abcdef0");
    }
}

#[tokio::test(start_paused = true)]
async fn snapshot_is_deleted_after_any_first_reply() {
    for seconds in DEADLINES {
        for (class, done) in
            [(ErrorClass::Ambiguous, true), (ErrorClass::Ambiguous, false), (ErrorClass::SnapshotNotFound, false)]
        {
            for dies in [true, false] {
                let mut world = World::start().await;
                realistic(&world).await;
                let volume = world.volume("pvc-1").await;
                let id = take(&world, "a", &volume, &[]).await.expect("taken").snapshot_id;
                world.ec2.fail_next(Action::DeleteSnapshot, class, done);
                if dies {
                    world.replace_driver();
                }
                let request = DeleteSnapshotRequest { snapshot_id: id, ..Default::default() };
                let delete = async || {
                    let answer = world.service.delete_snapshot(world.over(request.clone())).await;
                    answer.map(drop).map_err(Refused::from)
                };
                insist(seconds, delete).await.expect("deleted");
                assert_eq!(snapshots_there(&world).await, 0, "{seconds} s, {class:?} {done}");
            }
        }
    }
}

/// Clients wait 1 to 15 s.
#[tokio::test(start_paused = true)]
async fn volume_grows_once_after_a_lost_first_reply() {
    for seconds in DEADLINES {
        for done in [true, false] {
            for dies in [true, false] {
                let mut world = World::start().await;
                realistic(&world).await;
                let volume = world.volume("pvc-1").await;
                world.ec2.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, done);
                if dies {
                    let _first = timeout(Duration::from_secs(seconds), expand(&world, &volume, 8)).await;
                    world.replace_driver();
                }
                let size = insist(seconds, async || expand(&world, &volume, 8).await).await;
                assert_eq!(size, Ok(8 * GIB), "{seconds} s, done: {done}, dies: {dies}");
                sleep(Duration::from_secs(60)).await;
                world.ec2.fail_next(Action::ModifyVolume, ErrorClass::Ambiguous, done);
                let class = [("iops", "4000"), ("tagSpecification_1", "team=red")];
                let changed = insist(seconds, async || modify(&world, &volume, &class).await).await;
                assert_eq!(changed, Ok(()), "{seconds} s, done: {done}, dies: {dies}");
                let volume = world.volumes().await.remove(0);
                assert_eq!((volume.iops, volume.tags["team"].as_str()), (Some(4000), "red"));
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn volume_that_cannot_grow_yet_or_is_missing_is_reported() {
    for seconds in DEADLINES {
        let world = World::start().await;
        realistic(&world).await;
        let timing = TimingOverride { optimize_ms: Some(3_600_000), ..TimingOverride::default() };
        world.ec2.engine().set_timing(timing).await;
        let volume = world.volume("pvc-1").await;
        expand(&world, &volume, 8).await.expect("grown");
        sleep(Duration::from_secs(60)).await;
        let refusal = insist(seconds, async || expand(&world, &volume, 16).await).await;
        refused(refusal, "FailedPrecondition", "being optimized");
        let missing = "vol-0123456789abcdef0";
        refused(insist(seconds, async || expand(&world, missing, 16).await).await, "NotFound", missing);
    }
}
