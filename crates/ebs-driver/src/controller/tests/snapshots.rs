use ebs_ec2::ErrorClass;
use ebs_sim::iam::Extra;

use super::*;

pub(super) async fn take(
    world: &World,
    name: &str,
    volume: &str,
    parameters: &[(&str, &str)],
) -> Result<csi::Snapshot, Refused> {
    let request = CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume.to_owned(),
        parameters: map(parameters),
        ..Default::default()
    };
    let answer = world.service.create_snapshot(world.over(request)).await.map_err(Refused::from)?;
    Ok(answer.into_inner().snapshot.expect("a snapshot"))
}

pub(super) async fn delete(world: &World, id: &str) -> Result<(), Refused> {
    let request = DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
    world.service.delete_snapshot(world.over(request)).await.map(drop).map_err(Refused::from)
}

async fn list(world: &World, request: ListSnapshotsRequest) -> Result<(Vec<String>, String), Refused> {
    let answer = world.service.list_snapshots(Request::new(request)).await.map_err(Refused::from)?.into_inner();
    let id = |e: &csi::list_snapshots_response::Entry| e.snapshot.as_ref().expect("a snapshot").snapshot_id.clone();
    Ok((answer.entries.iter().map(id).collect(), answer.next_token))
}

/// Its tags come from its class.
#[tokio::test(start_paused = true)]
async fn snapshot_is_taken_once_for_a_name() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let parameters =
        [("csi.storage.k8s.io/volumesnapshot/name", "daily"), ("tagSpecification_1", "of={{ .VolumeSnapshotName }}")];
    let first = take(&world, "snapshot-1", &volume, &parameters).await.expect("taken");
    assert_eq!((first.source_volume_id.as_str(), first.size_bytes), (volume.as_str(), 4 * GIB));
    assert!(first.creation_time.is_some());
    let again = take(&world, "snapshot-1", &volume, &parameters).await.expect("found");
    assert_eq!(again.snapshot_id, first.snapshot_id);
    assert!(again.ready_to_use, "the simulator is instant");
    let state = world.ec2.engine().snapshot_of_state().await;
    let [snapshot] = state.snapshots.as_slice() else { panic!("{state:?}") };
    assert_eq!(
        (snapshot.tags["CSIVolumeSnapshotName"].as_str(), snapshot.tags["of"].as_str()),
        ("snapshot-1", "daily")
    );
    assert_eq!(snapshot.tags["ebs.csi.aws.com/cluster"], "true");
}

/// The code is AlreadyExists.
#[tokio::test(start_paused = true)]
async fn snapshot_name_of_another_volume_is_refused() {
    let world = World::start().await;
    let (one, other) = (world.volume("pvc-1").await, world.volume("pvc-2").await);
    take(&world, "snapshot-1", &one, &[]).await.expect("taken");
    refused(take(&world, "snapshot-1", &other, &[]).await, "AlreadyExists", "snapshot-1");
}

/// A missing source is NotFound.
#[tokio::test(start_paused = true)]
async fn invalid_snapshot_request_changes_nothing() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.ec2.clear_calls();
    refused(take(&world, "", &volume, &[]).await, "InvalidArgument", "name");
    refused(take(&world, "s", "", &[]).await, "InvalidArgument", "source_volume_id");
    refused(take(&world, "s", "local-ebs://dev/x", &[]).await, "InvalidArgument", "node-local");
    refused(take(&world, "s", &volume, &[("what", "1")]).await, "InvalidArgument", "what");
    refused(take(&world, "s", &volume, &[("lockDuration", "soon")]).await, "InvalidArgument", "lockDuration");
    refused(take(&world, "s", "disk-7", &[]).await, "NotFound", "disk-7");
    assert_eq!(world.ec2.calls(), []);
    let missing = "vol-0123456789abcdef0";
    refused(take(&world, "s", missing, &[]).await, "NotFound", missing);
}

/// It also succeeds for an invalid ID.
#[tokio::test(start_paused = true)]
async fn delete_snapshot_is_idempotent() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let id = take(&world, "snapshot-1", &volume, &[]).await.expect("taken").snapshot_id;
    delete(&world, &id).await.expect("deleted");
    delete(&world, &id).await.expect("gone already");
    delete(&world, "backup-7").await.expect("names nothing");
    refused(delete(&world, "").await, "InvalidArgument", "snapshot_id");
    assert!(world.ec2.engine().snapshot_of_state().await.snapshots.is_empty());
}

/// Both filters can be combined.
#[tokio::test(start_paused = true)]
async fn snapshots_are_listed_by_id_and_by_source() {
    let world = World::start().await;
    let (one, other) = (world.volume("pvc-1").await, world.volume("pvc-2").await);
    let a = take(&world, "a", &one, &[]).await.expect("taken").snapshot_id;
    let b = take(&world, "b", &other, &[]).await.expect("taken").snapshot_id;
    let by = |snapshot_id: &str, source_volume_id: &str| ListSnapshotsRequest {
        snapshot_id: snapshot_id.to_owned(),
        source_volume_id: source_volume_id.to_owned(),
        ..Default::default()
    };
    assert_eq!(list(&world, by(&a, "")).await.expect("lists"), (vec![a.clone()], String::new()));
    assert_eq!(list(&world, by(&a, &one)).await.expect("lists").0, vec![a.clone()]);
    assert_eq!(list(&world, by("", &other)).await.expect("lists").0, [b]);
    for nothing in
        [by(&a, &other), by(&a, "disk-7"), by("backup-7", ""), by("", "disk-7"), by("snap-0123456789abcdef0", "")]
    {
        assert_eq!(list(&world, nothing.clone()).await.expect("lists"), (Vec::new(), String::new()), "{nothing:?}");
    }
    let odd = ListSnapshotsRequest { starting_token: "x".to_owned(), ..by(&a, "") };
    refused(list(&world, odd).await, "Aborted", "token");
}

/// Pages of 1 to 4 snapshots work, although EC2 returns at least five. An invalid token is Aborted.
#[tokio::test(start_paused = true)]
async fn pages_of_snapshots_may_be_shorter_than_ec2_allows() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let mut taken = Vec::new();
    for name in ["a", "b", "c"] {
        taken.push(take(&world, name, &volume, &[]).await.expect("taken").snapshot_id);
    }
    for max_entries in [0, 1, 2, 3, 5] {
        let (mut seen, mut starting_token) = (Vec::new(), String::new());
        for _ in 0..5 {
            let request = ListSnapshotsRequest { max_entries, starting_token, ..Default::default() };
            let (ids, next) = list(&world, request).await.expect("lists");
            assert!(max_entries == 0 || i32::try_from(ids.len()).expect("few") <= max_entries, "{ids:?}");
            seen.extend(ids);
            starting_token = next;
            if starting_token.is_empty() {
                break;
            }
        }
        seen.sort();
        taken.sort();
        assert_eq!(seen, taken, "max_entries {max_entries}");
    }
    let bad = ListSnapshotsRequest { starting_token: "nobody gave this".to_owned(), ..Default::default() };
    refused(list(&world, bad).await, "Aborted", "token");
    let negative = ListSnapshotsRequest { max_entries: -1, ..Default::default() };
    refused(list(&world, negative).await, "InvalidArgument", "max_entries");
}

/// A missing snapshot is NotFound.
#[tokio::test(start_paused = true)]
async fn get_snapshot_finds_a_snapshot_by_id() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let taken = take(&world, "a", &volume, &[]).await.expect("taken");
    let get = async |id: &str| {
        let request = GetSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
        world.service.get_snapshot(Request::new(request)).await.map_err(Refused::from)
    };
    let got = get(&taken.snapshot_id).await.expect("there").into_inner().snapshot.expect("a snapshot");
    assert_eq!(
        (got.snapshot_id.as_str(), got.source_volume_id.as_str()),
        (taken.snapshot_id.as_str(), volume.as_str())
    );
    refused(get("").await, "InvalidArgument", "snapshot_id");
    refused(get("backup-7").await, "NotFound", "backup-7");
    refused(get("snap-0123456789abcdef0").await, "NotFound", "snap-0123456789abcdef0");
}

const FAST: (&str, &str) = ("fastSnapshotRestoreAvailabilityZones", "us-west-2a,us-west-2b");
const LOCK: [(&str, &str); 2] = [("lockMode", "governance"), ("lockDuration", "3")];

async fn snapshots_there(world: &World) -> usize {
    world.ec2.engine().snapshot_of_state().await.snapshots.len()
}

/// EC2 does not delete a snapshot with fast restores, which the driver must do when the lock is rejected.
#[tokio::test(start_paused = true)]
async fn snapshot_gets_its_lock_before_fast_restores() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let made = take(&world, "snapshot-1", &volume, &[FAST, LOCK[0], LOCK[1]]).await.expect("taken");
    let actions = [Action::CreateSnapshot, Action::LockSnapshot, Action::EnableFastSnapshotRestores];
    assert_eq!(world.mutations()[1..], actions);
    refused(delete(&world, &made.snapshot_id).await, "FailedPrecondition", "locked");
}

#[tokio::test(start_paused = true)]
async fn missing_zones_are_refused_before_a_snapshot_is_taken() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let zones = [("fastSnapshotRestoreAvailabilityZones", "us-west-2a,us-east-9z")];
    refused(take(&world, "snapshot-1", &volume, &zones).await, "InvalidArgument", "us-east-9z");
    assert_eq!(snapshots_there(&world).await, 0);
}

/// When EC2 rejects its lock or fast restores. If the delete fails too, the message has both errors and the code is not
/// final.
#[tokio::test(start_paused = true)]
async fn new_snapshot_is_deleted_when_it_cannot_be_completed() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    let all = [FAST, LOCK[0], LOCK[1]];
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &all).await, "PermissionDenied", "lock snapshot");
    assert_eq!(snapshots_there(&world).await, 0);
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    world.ec2.fail_next(Action::DeleteSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-2", &volume, &all).await, "Aborted", "could not be deleted");
    assert_eq!(snapshots_there(&world).await, 1);
    assert_eq!(world.ec2.count(Action::EnableFastSnapshotRestores), 0);
}

/// The code is not final, and a repeat continues with the snapshot.
#[tokio::test(start_paused = true)]
async fn locked_snapshot_is_kept_when_fast_restores_are_rejected() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    let all = [FAST, LOCK[0], LOCK[1]];
    world.ec2.fail_next(Action::EnableFastSnapshotRestores, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &all).await, "Aborted", "locked");
    assert_eq!(snapshots_there(&world).await, 1);
    assert!(take(&world, "snapshot-1", &volume, &all).await.expect("continues").ready_to_use);
    assert_eq!((snapshots_there(&world).await, world.ec2.count(Action::LockSnapshot)), (1, 1));
}

/// Examples are: no mode, a cooling-off period in governance mode, two ends or no end, numbers that EC2 rejects, an end
/// in the past.
#[tokio::test(start_paused = true)]
async fn invalid_lock_is_refused_before_a_snapshot_is_taken() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let (governance, compliance) = (("lockMode", "governance"), ("lockMode", "compliance"));
    let (days, end) = (("lockDuration", "3"), ("lockExpirationDate", "2040-01-01T00:00:00Z"));
    let rows: [(&[(&str, &str)], &str); 12] = [
        (&[days], "lockMode is missing"),
        (&[("lockMode", ""), end], "lockMode is missing"),
        (&[("lockCoolOffPeriod", "1")], "lockMode is missing"),
        (&[("lockMode", "Governance"), days], "governance or compliance"),
        (&[governance, days, ("lockCoolOffPeriod", "1")], "requires lockMode compliance"),
        (&[governance], "no end"),
        (&[compliance, ("lockCoolOffPeriod", "1")], "no end"),
        (&[compliance, days, end], "mutually exclusive"),
        (&[compliance, ("lockDuration", "36501")], "1 to 36500"),
        (&[compliance, days, ("lockCoolOffPeriod", "73")], "1 to 72"),
        (&[compliance, ("lockExpirationDate", "next year")], "lockExpirationDate"),
        (&[governance, ("lockExpirationDate", "2020-01-01T00:00:00Z")], "2020-01-01T00:00:00Z"),
    ];
    world.ec2.clear_calls();
    for (parameters, says) in rows {
        refused(take(&world, "snapshot-1", &volume, parameters).await, "InvalidArgument", says);
    }
    assert_eq!(world.mutations(), []);
    for (name, lock) in [
        ("snapshot-2", &[compliance, ("lockDuration", "36500"), ("lockCoolOffPeriod", "72")][..]),
        ("snapshot-3", &[governance, end]),
    ] {
        let id = take(&world, name, &volume, lock).await.expect("locked").snapshot_id;
        refused(delete(&world, &id).await, "FailedPrecondition", "locked");
    }
}

/// The driver has seen the lock, which has ended since.
#[tokio::test(start_paused = true)]
async fn repeat_succeeds_after_the_end_of_a_confirmed_lock() {
    let mut world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    // EC2 rejects an end that is less than a day away, so the clock of this driver is a day ahead.
    let tomorrow = SystemTime::now() + Duration::from_hours(24);
    (world.service, world.operations) = driver_over(&world.ec2, Some(tomorrow));
    let end = humantime::format_rfc3339_seconds(tomorrow + Duration::from_secs(120)).to_string();
    let lock = [("lockMode", "governance"), ("lockExpirationDate", end.as_str())];
    take(&world, "snapshot-1", &volume, &lock).await.expect("taken");
    tokio::time::sleep(Duration::from_secs(600)).await;
    take(&world, "snapshot-1", &volume, &lock).await.expect("there, and it was locked");
    assert_eq!(world.ec2.count(Action::LockSnapshot), 1);
    refused(take(&world, "snapshot-2", &volume, &lock).await, "InvalidArgument", &end);
    assert_eq!(snapshots_there(&world).await, 1);
}

/// Keeps snapshots pending for ten minutes.
async fn slow(world: &World) {
    let slow = ebs_sim::engine::TimingOverride { snapshot_ms: Some(600_000), ..Default::default() };
    world.ec2.engine().set_timing(slow).await;
}

/// The repeat does only the steps that this process has not seen done.
#[tokio::test(start_paused = true)]
async fn repeat_completes_a_pending_snapshot() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    slow(&world).await;
    let volume = world.volume("pvc-1").await;
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, false);
    refused(take(&world, "snapshot-1", &volume, &[FAST, LOCK[0], LOCK[1]]).await, "Aborted", "lock snapshot");
    for _ in 0..3 {
        take(&world, "snapshot-1", &volume, &[FAST, LOCK[0], LOCK[1]]).await.expect("locked");
    }
    assert_eq!(world.ec2.count(Action::LockSnapshot), 2);
    assert_eq!(world.ec2.count(Action::EnableFastSnapshotRestores), 1);
    assert_eq!(world.ec2.count(Action::CreateSnapshot), 1);
}

/// The same applies to a snapshot that this process may have taken. Only then is the rejection of its lock or fast
/// restore final.
#[tokio::test(start_paused = true)]
async fn repeat_deletes_own_snapshot_when_its_lock_is_rejected() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    slow(&world).await;
    let volume = world.volume("pvc-1").await;
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, false);
    refused(take(&world, "snapshot-1", &volume, &LOCK).await, "Aborted", "lock snapshot");
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(snapshots_there(&world).await, 0);
    // The same when the first attempt could not delete it.
    for _ in 0..2 {
        world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    }
    world.ec2.fail_next(Action::DeleteSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-2", &volume, &LOCK).await, "Aborted", "could not be deleted");
    refused(take(&world, "snapshot-2", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(snapshots_there(&world).await, 0);
}

#[tokio::test(start_paused = true)]
async fn snapshot_of_unclear_creation_is_deleted_when_lock_fails() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    // This driver has handled several requests, so that only it can have taken the snapshot.
    for name in ["warm-1", "warm-2"] {
        take(&world, name, &volume, &[]).await.expect("taken");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    world.ec2.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, true);
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(snapshots_there(&world).await, 2);
}

/// The rejected lock is not final.
#[tokio::test(start_paused = true)]
async fn snapshot_that_a_client_may_know_is_never_deleted() {
    let mut world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    slow(&world).await;
    let volume = world.volume("pvc-1").await;
    // A process that has forgotten it returned the snapshot as pending.
    let told = take(&world, "snapshot-1", &volume, &LOCK).await.expect("taken").snapshot_id;
    super::locks::unlock_by_hand(&world, &told).await;
    world.replace_driver();
    for _ in 0..3 {
        world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
        refused(take(&world, "snapshot-1", &volume, &LOCK).await, "Aborted", &told);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(snapshots_there(&world).await, 1);
    assert_eq!(take(&world, "snapshot-1", &volume, &LOCK).await.expect("locked").snapshot_id, told);
}

/// After a restart, a completed snapshot is not ready before its lock and fast restores are confirmed.
#[tokio::test(start_paused = true)]
async fn snapshot_is_ready_only_after_confirmed_lock_and_restores() {
    let mut world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    let all = [FAST, LOCK[0], LOCK[1]];
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, false);
    refused(take(&world, "snapshot-1", &volume, &all).await, "Aborted", "lock snapshot");
    world.replace_driver();
    world.ec2.fail_next(Action::EnableFastSnapshotRestores, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &all).await, "Aborted", "fast restores");
    assert_eq!(world.ec2.count(Action::LockSnapshot), 2, "once by each process");
    let ready = take(&world, "snapshot-1", &volume, &all).await.expect("complete");
    assert!(ready.ready_to_use);
    assert_eq!((world.ec2.count(Action::LockSnapshot), world.ec2.count(Action::EnableFastSnapshotRestores)), (2, 2));
    refused(delete(&world, &ready.snapshot_id).await, "FailedPrecondition", "locked");
}

#[tokio::test(start_paused = true)]
async fn rejected_zones_leave_no_snapshot_of_an_earlier_attempt() {
    let mut world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let zones = [("fastSnapshotRestoreAvailabilityZones", "us-west-2a,us-east-9z")];
    // EC2 did not list its zones, so the driver took the snapshot, and the reply was lost.
    world.ec2.fail_next(Action::DescribeAvailabilityZones, ErrorClass::Unauthorized, false);
    world.ec2.fail_next(Action::EnableFastSnapshotRestores, ErrorClass::Ambiguous, false);
    refused(take(&world, "snapshot-1", &volume, &zones).await, "Aborted", "fast restores");
    world.replace_driver();
    refused(take(&world, "snapshot-1", &volume, &zones).await, "Aborted", "us-east-9z");
    assert_eq!(snapshots_there(&world).await, 1);
}

/// `lockDuration` and `lockCoolOffPeriod` below 1 are never left out: the remaining parameters could be an irrevocable lock.
#[tokio::test(start_paused = true)]
async fn lock_numbers_below_one_are_refused() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.ec2.clear_calls();
    for key in ["lockDuration", "lockCoolOffPeriod"] {
        for value in ["0", "-1", "", "2147483648"] {
            let lock = [("lockMode", "compliance"), ("lockExpirationDate", "2040-01-01T00:00:00Z"), (key, value)];
            refused(take(&world, "snapshot-1", &volume, &lock).await, "InvalidArgument", key);
        }
    }
    assert_eq!(world.ec2.calls(), []);
}
