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

async fn delete(world: &World, id: &str) -> Result<(), Refused> {
    let request = DeleteSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() };
    world.service.delete_snapshot(world.over(request)).await.map(drop).map_err(Refused::from)
}

async fn list(world: &World, request: ListSnapshotsRequest) -> Result<(Vec<String>, String), Refused> {
    let answer = world.service.list_snapshots(Request::new(request)).await.map_err(Refused::from)?.into_inner();
    let id = |e: &csi::list_snapshots_response::Entry| e.snapshot.as_ref().expect("a snapshot").snapshot_id.clone();
    Ok((answer.entries.iter().map(id).collect(), answer.next_token))
}

/// A snapshot is taken once for a name and tagged from its class.
#[tokio::test(start_paused = true)]
async fn a_snapshot_is_taken_once_for_a_name() {
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

/// A snapshot name of another volume is AlreadyExists.
#[tokio::test(start_paused = true)]
async fn a_snapshot_name_of_another_volume_is_refused() {
    let world = World::start().await;
    let (one, other) = (world.volume("pvc-1").await, world.volume("pvc-2").await);
    take(&world, "snapshot-1", &one, &[]).await.expect("taken");
    refused(take(&world, "snapshot-1", &other, &[]).await, "AlreadyExists", "snapshot-1");
}

/// A CreateSnapshot that cannot be is refused; a missing source is NotFound.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_cannot_be_changes_nothing() {
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

/// DeleteSnapshot is idempotent and succeeds for what cannot be an id.
#[tokio::test(start_paused = true)]
async fn deleting_a_snapshot_is_idempotent() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let id = take(&world, "snapshot-1", &volume, &[]).await.expect("taken").snapshot_id;
    delete(&world, &id).await.expect("deleted");
    delete(&world, &id).await.expect("gone already");
    delete(&world, "backup-7").await.expect("names nothing");
    refused(delete(&world, "").await, "InvalidArgument", "snapshot_id");
    assert!(world.ec2.engine().snapshot_of_state().await.snapshots.is_empty());
}

/// Snapshots are listed by id and by source, and both filters apply.
#[tokio::test(start_paused = true)]
async fn snapshots_are_listed_by_id_and_by_source_and_both_filters_apply() {
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

/// Pages of 1 to 4 snapshots are possible; a bad token is Aborted.
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

/// GetSnapshot finds a snapshot by id; a missing one is NotFound.
#[tokio::test(start_paused = true)]
async fn a_snapshot_can_be_asked_for_by_id() {
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

/// A snapshot gets its lock and then fast restores, with which EC2 would not delete it when the lock is refused.
#[tokio::test(start_paused = true)]
async fn a_snapshot_gets_its_lock_and_then_fast_restores() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let made = take(&world, "snapshot-1", &volume, &[FAST, LOCK[0], LOCK[1]]).await.expect("taken");
    let actions = [Action::CreateSnapshot, Action::LockSnapshot, Action::EnableFastSnapshotRestores];
    assert_eq!(world.mutations()[1..], actions);
    refused(delete(&world, &made.snapshot_id).await, "FailedPrecondition", "locked");
}

/// Zones that do not exist are refused before a snapshot is taken.
#[tokio::test(start_paused = true)]
async fn zones_that_do_not_exist_are_refused_before_a_snapshot_is_taken() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let zones = [("fastSnapshotRestoreAvailabilityZones", "us-west-2a,us-east-9z")];
    refused(take(&world, "snapshot-1", &volume, &zones).await, "InvalidArgument", "us-east-9z");
    assert_eq!(snapshots_there(&world).await, 0);
}

/// A new snapshot that cannot be had as asked for is deleted again; when that fails both errors are told and the answer
/// is not final.
#[tokio::test(start_paused = true)]
async fn a_new_snapshot_that_cannot_be_had_as_asked_for_is_deleted_again_and_both_errors_are_told() {
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

/// A locked snapshot whose fast restores are refused stays, which is not final, and a repeat goes on with it.
#[tokio::test(start_paused = true)]
async fn a_locked_snapshot_whose_fast_restores_are_refused_stays_and_a_repeat_goes_on() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    let all = [FAST, LOCK[0], LOCK[1]];
    world.ec2.fail_next(Action::EnableFastSnapshotRestores, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &all).await, "Aborted", "locked");
    assert_eq!(snapshots_there(&world).await, 1);
    assert!(take(&world, "snapshot-1", &volume, &all).await.expect("goes on").ready_to_use);
    assert_eq!((snapshots_there(&world).await, world.ec2.count(Action::LockSnapshot)), (1, 1));
}

/// Parameters that are no lock together are refused before a snapshot is made: no mode, a cooling-off period in governance mode,
/// two ends or none, numbers that EC2 does not take, an end in the past.
#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_is_refused_before_a_snapshot_is_made() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let (governance, compliance) = (("lockMode", "governance"), ("lockMode", "compliance"));
    let (days, end) = (("lockDuration", "3"), ("lockExpirationDate", "2040-01-01T00:00:00Z"));
    let rows: [(&[(&str, &str)], &str); 12] = [
        (&[days], "lockMode is missing"),
        (&[("lockMode", ""), end], "lockMode is missing"),
        (&[("lockCoolOffPeriod", "1")], "lockMode is missing"),
        (&[("lockMode", "Governance"), days], "governance or compliance"),
        (&[governance, days, ("lockCoolOffPeriod", "1")], "only for lockMode compliance"),
        (&[governance], "no end"),
        (&[compliance, ("lockCoolOffPeriod", "1")], "no end"),
        (&[compliance, days, end], "exclude each other"),
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

/// A snapshot whose lock was seen done is answered when the lock has ended meanwhile.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_outlives_its_lock_is_answered_all_the_same() {
    let mut world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    // EC2 takes no end that is less than a day away; this driver's clock is a day ahead.
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

/// Snapshots stay pending for ten minutes.
async fn slow(world: &World) {
    let slow = ebs_sim::engine::TimingOverride { snapshot_ms: Some(600_000), ..Default::default() };
    world.ec2.engine().set_timing(slow).await;
}

/// A repeat gives a pending snapshot what it lacks, and only what this process has not seen done.
#[tokio::test(start_paused = true)]
async fn a_repeat_gives_a_pending_snapshot_what_it_lacks_and_only_that() {
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

/// A snapshot that this process took for a request, or may have taken, is deleted before a refusal of its lock or fast
/// restore is final, on a repeat too.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_this_process_took_for_a_request_is_not_left_behind_when_a_repeat_of_it_is_refused() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    slow(&world).await;
    let volume = world.volume("pvc-1").await;
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Ambiguous, false);
    refused(take(&world, "snapshot-1", &volume, &LOCK).await, "Aborted", "lock snapshot");
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(snapshots_there(&world).await, 0);
    // The same when the first attempt could not clean up.
    for _ in 0..2 {
        world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    }
    world.ec2.fail_next(Action::DeleteSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-2", &volume, &LOCK).await, "Aborted", "could not be deleted");
    refused(take(&world, "snapshot-2", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(snapshots_there(&world).await, 0);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_whose_creation_was_unclear_is_not_left_behind_when_its_lock_is_refused() {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    // Asked again and again, so that it alone can have taken it.
    for name in ["warm-1", "warm-2"] {
        take(&world, name, &volume, &[]).await.expect("taken");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    world.ec2.fail_next(Action::CreateSnapshot, ErrorClass::Ambiguous, true);
    world.ec2.fail_next(Action::LockSnapshot, ErrorClass::Unauthorized, false);
    refused(take(&world, "snapshot-1", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(snapshots_there(&world).await, 2);
}

/// A snapshot that somebody may know is never deleted; that it cannot be as asked for is not final.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_somebody_may_know_is_never_deleted_and_its_refused_lock_is_not_final() {
    let mut world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    slow(&world).await;
    let volume = world.volume("pvc-1").await;
    // Told as pending, by a process whose memory is gone.
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

/// A completed snapshot is ready only when this process has seen it locked and restored fast.
#[tokio::test(start_paused = true)]
async fn a_completed_snapshot_is_ready_only_when_this_process_has_seen_it_locked_and_restored_fast() {
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
async fn zones_that_are_refused_leave_no_snapshot_of_an_earlier_attempt_behind() {
    let mut world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let zones = [("fastSnapshotRestoreAvailabilityZones", "us-west-2a,us-east-9z")];
    // EC2 did not list its zones, so the snapshot was taken, and its answer was lost.
    world.ec2.fail_next(Action::DescribeAvailabilityZones, ErrorClass::Unauthorized, false);
    world.ec2.fail_next(Action::EnableFastSnapshotRestores, ErrorClass::Ambiguous, false);
    refused(take(&world, "snapshot-1", &volume, &zones).await, "Aborted", "fast restores");
    world.replace_driver();
    refused(take(&world, "snapshot-1", &volume, &zones).await, "Aborted", "us-east-9z");
    assert_eq!(snapshots_there(&world).await, 1);
}

/// `lockDuration` and `lockCoolOffPeriod` below 1 are refused and never left out: the rest could be an irrevocable
/// lock.
#[tokio::test(start_paused = true)]
async fn numbers_of_a_lock_below_one_are_refused_and_never_left_out() {
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
