//! Tests snapshots with their locks and fast restores.

use ebs_ec2::{Action::*, ErrorClass};
use ebs_sim::iam::Extra;

use super::*;

const FAST: (&str, &str) = ("fastSnapshotRestoreAvailabilityZones", "us-west-2a,us-west-2b");
const LOCK: [(&str, &str); 2] = [("lockMode", "governance"), ("lockDuration", "3")];
const BOTH: [(&str, &str); 3] = [FAST, LOCK[0], LOCK[1]];

async fn world() -> (World, String) {
    let world = World::start().await;
    world.ec2.declare(Extra::SnapshotLocks);
    let volume = world.volume("pvc-1").await;
    (world, volume)
}

/// Returns a world like [`world`], in which snapshots stay pending for ten minutes.
async fn slow_world() -> (World, String) {
    let (world, volume) = world().await;
    world.timing(TimingOverride { snapshot_ms: Some(600_000), ..Default::default() }).await;
    (world, volume)
}

impl World {
    /// Makes EC2 reject the next call of each action.
    fn reject(&self, actions: &[Action]) {
        actions.iter().for_each(|action| self.ec2.fail_next(*action, ErrorClass::Unauthorized, false));
    }

    async fn list(&self, request: ListSnapshotsRequest) -> Result<(Vec<csi::Snapshot>, String), Refused> {
        let reply = ask!(self, list_snapshots, request)?;
        Ok((reply.entries.into_iter().filter_map(|entry| entry.snapshot).collect(), reply.next_token))
    }
}

/// The tags of the snapshot come from its class.
#[tokio::test(start_paused = true)]
async fn snapshot_is_taken_once_for_a_name() {
    let (world, volume) = world().await;
    let parameters =
        [("csi.storage.k8s.io/volumesnapshot/name", "daily"), ("tagSpecification_1", "of={{ .VolumeSnapshotName }}")];
    let first = world.take("snapshot-1", &volume, &parameters).await.expect("taken");
    assert_eq!((first.source_volume_id.as_str(), first.size_bytes), (volume.as_str(), 4 * GIB));
    assert!(first.creation_time.is_some());
    let again = world.take("snapshot-1", &volume, &parameters).await.expect("found");
    assert_eq!(again.snapshot_id, first.snapshot_id);
    assert!(again.ready_to_use, "the simulator is instant");
    let state = world.ec2.engine().snapshot_of_state().await;
    let [snapshot] = state.snapshots.as_slice() else { panic!("{state:?}") };
    for (key, value) in [("CSIVolumeSnapshotName", "snapshot-1"), ("of", "daily"), ("ebs.csi.aws.com/cluster", "true")]
    {
        assert_eq!(snapshot.tags[key], value);
    }
}

/// For a missing source, the code is NotFound.
#[tokio::test(start_paused = true)]
async fn invalid_snapshot_request_changes_nothing() {
    let (world, volume) = world().await;
    world.ec2.clear_calls();
    for (name, volume, class, code, says) in [
        ("", volume.as_str(), None, "InvalidArgument", "name"),
        ("s", "", None, "InvalidArgument", "source_volume_id"),
        ("s", "local-ebs://dev/x", None, "InvalidArgument", "node-local"),
        ("s", &volume, Some(("what", "1")), "InvalidArgument", "what"),
        ("s", &volume, Some(("lockDuration", "soon")), "InvalidArgument", "lockDuration"),
        ("s", "disk-7", None, "NotFound", "disk-7"),
    ] {
        refused(world.take(name, volume, class.as_slice()).await, code, says);
    }
    assert_eq!(world.ec2.calls(), []);
    refused(world.take("s", NO_VOLUME, &[]).await, "NotFound", NO_VOLUME);
}

/// DeleteSnapshot also succeeds for an invalid ID.
#[tokio::test(start_paused = true)]
async fn delete_snapshot_is_idempotent() {
    let (world, volume) = world().await;
    let id = world.take("snapshot-1", &volume, &[]).await.expect("taken").snapshot_id;
    for id in [&id, &id, "backup-7"] {
        world.delete_snapshot(id).await.expect("no such snapshot is left");
    }
    refused(world.delete_snapshot("").await, "InvalidArgument", "snapshot_id");
    assert_eq!(world.snapshots().await, 0);
}

/// Both filters can be combined. A listed snapshot has the ID, source, size, time and readiness that CreateSnapshot
/// returned.
#[tokio::test(start_paused = true)]
async fn snapshots_are_listed_by_id_and_by_source() {
    let (world, one) = world().await;
    let other = world.volume("pvc-2").await;
    for (name, volume) in [("a", &one), ("b", &other)] {
        world.take(name, volume, &[]).await.expect("taken");
    }
    let a = world.take("a", &one, &[]).await.expect("found");
    let b = world.take("b", &other, &[]).await.expect("found");
    let by = |snapshot_id: &str, source_volume_id: &str| ListSnapshotsRequest {
        snapshot_id: snapshot_id.to_owned(),
        source_volume_id: source_volume_id.to_owned(),
        ..Default::default()
    };
    let id = a.snapshot_id.as_str();
    for (request, found) in [
        (by(id, ""), vec![&a]),
        (by(id, &one), vec![&a]),
        (by("", &other), vec![&b]),
        (by(id, &other), vec![]),
        (by(id, "disk-7"), vec![]),
        (by("backup-7", ""), vec![]),
        (by("", "disk-7"), vec![]),
        (by(NO_SNAPSHOT, ""), vec![]),
    ] {
        let (listed, token) = world.list(request.clone()).await.expect("lists");
        assert_eq!((listed.iter().collect::<Vec<_>>(), token), (found, String::new()), "{request:?}");
    }
    assert_eq!(world.list(by("", "")).await.expect("lists").0.len(), 2);
    let odd = ListSnapshotsRequest { starting_token: "x".to_owned(), ..by(id, "") };
    refused(world.list(odd).await, "Aborted", "token");
    refused(world.list(ListSnapshotsRequest { max_entries: -1, ..by("", "") }).await, "InvalidArgument", "max_entries");
}

/// For a missing snapshot, the code is NotFound.
#[tokio::test(start_paused = true)]
async fn get_snapshot_finds_a_snapshot_by_id() {
    let (world, volume) = world().await;
    let taken = world.take("a", &volume, &[]).await.expect("taken");
    let get = async |id: &str| {
        ask!(world, get_snapshot, GetSnapshotRequest { snapshot_id: id.to_owned(), ..Default::default() })
    };
    let got = get(&taken.snapshot_id).await.expect("there").snapshot.expect("a snapshot");
    assert_eq!((got.snapshot_id, got.source_volume_id), (taken.snapshot_id, volume));
    refused(get("").await, "InvalidArgument", "snapshot_id");
    for missing in ["backup-7", NO_SNAPSHOT] {
        refused(get(missing).await, "NotFound", missing);
    }
}

/// EC2 does not delete a snapshot with fast restores, and the driver must delete the snapshot when EC2 rejects the
/// lock.
#[tokio::test(start_paused = true)]
async fn snapshot_is_locked_before_fast_restores_are_enabled() {
    let (world, volume) = world().await;
    let made = world.take("snapshot-1", &volume, &BOTH).await.expect("taken");
    assert_eq!(world.mutations()[1..], [CreateSnapshot, LockSnapshot, EnableFastSnapshotRestores]);
    refused(world.delete_snapshot(&made.snapshot_id).await, "FailedPrecondition", "locked");
}

/// EC2 rejects the snapshot's lock or fast restores. If DeleteSnapshot fails too, the message has both errors and the
/// code is not final.
#[tokio::test(start_paused = true)]
async fn new_snapshot_is_deleted_when_it_cannot_be_completed() {
    let (world, volume) = world().await;
    world.reject(&[LockSnapshot]);
    refused(world.take("snapshot-1", &volume, &BOTH).await, "PermissionDenied", "lock snapshot");
    assert_eq!(world.snapshots().await, 0);
    world.reject(&[LockSnapshot, DeleteSnapshot]);
    refused(world.take("snapshot-2", &volume, &BOTH).await, "Aborted", "could not be deleted");
    assert_eq!((world.snapshots().await, world.ec2.count(EnableFastSnapshotRestores)), (1, 0));
}

/// The code is not final, and a repeated request continues with the snapshot.
#[tokio::test(start_paused = true)]
async fn locked_snapshot_is_kept_when_fast_restores_are_rejected() {
    let (world, volume) = world().await;
    world.reject(&[EnableFastSnapshotRestores]);
    refused(world.take("snapshot-1", &volume, &BOTH).await, "Aborted", "locked");
    assert_eq!(world.snapshots().await, 1);
    assert!(world.take("snapshot-1", &volume, &BOTH).await.expect("continues").ready_to_use);
    assert_eq!((world.snapshots().await, world.ec2.count(LockSnapshot)), (1, 1));
}

/// Some locks lack a mode. Others have a cooling-off period in governance mode, two ends, no end, a past end or numbers
/// that EC2 rejects. The driver never ignores a number below 1, because the remaining parameters could create
/// an irrevocable lock.
#[tokio::test(start_paused = true)]
async fn invalid_lock_is_refused_before_a_snapshot_is_taken() {
    let (world, volume) = world().await;
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
        refused(world.take("snapshot-1", &volume, parameters).await, "InvalidArgument", says);
    }
    for key in ["lockDuration", "lockCoolOffPeriod"] {
        for value in ["0", "-1", "", "2147483648"] {
            let lock = [compliance, end, (key, value)];
            refused(world.take("snapshot-1", &volume, &lock).await, "InvalidArgument", key);
        }
    }
    assert_eq!(world.mutations(), []);
    for (name, lock) in [
        ("snapshot-2", &[compliance, ("lockDuration", "36500"), ("lockCoolOffPeriod", "72")][..]),
        ("snapshot-3", &[governance, end]),
    ] {
        let id = world.take(name, &volume, lock).await.expect("locked").snapshot_id;
        refused(world.delete_snapshot(&id).await, "FailedPrecondition", "locked");
    }
}

/// A repeated request skips the steps that this process has already completed.
#[tokio::test(start_paused = true)]
async fn repeated_request_completes_a_pending_snapshot() {
    let (world, volume) = slow_world().await;
    world.ec2.fail_next(LockSnapshot, ErrorClass::Ambiguous, false);
    refused(world.take("snapshot-1", &volume, &BOTH).await, "Aborted", "lock snapshot");
    for _ in 0..3 {
        world.take("snapshot-1", &volume, &BOTH).await.expect("locked");
    }
    let calls = [LockSnapshot, EnableFastSnapshotRestores, CreateSnapshot].map(|action| world.ec2.count(action));
    assert_eq!(calls, [2, 1, 1]);
}

/// If EC2 rejects a lock or fast restore, the driver deletes the snapshot and returns a final code, but only if this
/// process may have taken the snapshot.
#[tokio::test(start_paused = true)]
async fn repeated_request_deletes_own_snapshot_if_lock_is_rejected() {
    let (world, volume) = slow_world().await;
    world.ec2.fail_next(LockSnapshot, ErrorClass::Ambiguous, false);
    refused(world.take("snapshot-1", &volume, &LOCK).await, "Aborted", "lock snapshot");
    world.reject(&[LockSnapshot]);
    refused(world.take("snapshot-1", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(world.snapshots().await, 0);
    // The driver also deletes the snapshot if its first DeleteSnapshot call failed.
    world.reject(&[LockSnapshot, LockSnapshot, DeleteSnapshot]);
    refused(world.take("snapshot-2", &volume, &LOCK).await, "Aborted", "could not be deleted");
    refused(world.take("snapshot-2", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(world.snapshots().await, 0);
}

#[tokio::test(start_paused = true)]
async fn snapshot_is_deleted_after_lost_reply_and_rejected_lock() {
    let (world, volume) = world().await;
    // This driver has handled several requests, so it is the leader, and no other driver can have taken the snapshot.
    for name in ["warm-1", "warm-2"] {
        world.take(name, &volume, &[]).await.expect("taken");
        tokio::time::sleep(Duration::from_secs(10)).await;
    }
    world.ec2.fail_next(CreateSnapshot, ErrorClass::Ambiguous, true);
    world.reject(&[LockSnapshot]);
    refused(world.take("snapshot-1", &volume, &LOCK).await, "PermissionDenied", "lock snapshot");
    assert_eq!(world.snapshots().await, 2);
}

/// The code for the rejected lock is not final.
#[tokio::test(start_paused = true)]
async fn snapshot_that_a_client_may_have_received_is_never_deleted() {
    let (mut world, volume) = slow_world().await;
    // The driver returned the snapshot as pending, but its next process does not remember that.
    let told = world.take("snapshot-1", &volume, &LOCK).await.expect("taken").snapshot_id;
    super::locks::unlock_by_hand(&world, &told).await;
    world.replace_driver();
    for _ in 0..3 {
        world.reject(&[LockSnapshot]);
        refused(world.take("snapshot-1", &volume, &LOCK).await, "Aborted", &told);
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    assert_eq!(world.snapshots().await, 1);
    assert_eq!(world.take("snapshot-1", &volume, &LOCK).await.expect("locked").snapshot_id, told);
}

/// After a restart, a completed snapshot is not ready until its lock and fast restores are confirmed.
#[tokio::test(start_paused = true)]
async fn snapshot_is_ready_only_after_confirmed_lock_and_restores() {
    let (mut world, volume) = world().await;
    world.ec2.fail_next(LockSnapshot, ErrorClass::Ambiguous, false);
    refused(world.take("snapshot-1", &volume, &BOTH).await, "Aborted", "lock snapshot");
    world.replace_driver();
    world.reject(&[EnableFastSnapshotRestores]);
    refused(world.take("snapshot-1", &volume, &BOTH).await, "Aborted", "fast restores");
    assert_eq!(world.ec2.count(LockSnapshot), 2, "once by each process");
    let ready = world.take("snapshot-1", &volume, &BOTH).await.expect("complete");
    assert!(ready.ready_to_use);
    assert_eq!((world.ec2.count(LockSnapshot), world.ec2.count(EnableFastSnapshotRestores)), (2, 2));
    refused(world.delete_snapshot(&ready.snapshot_id).await, "FailedPrecondition", "locked");
}

#[tokio::test(start_paused = true)]
async fn earlier_snapshot_is_kept_when_its_restore_zones_are_rejected() {
    let (mut world, volume) = world().await;
    let zones = [("fastSnapshotRestoreAvailabilityZones", "us-west-2a,us-east-9z")];
    // EC2 rejects DescribeAvailabilityZones, so the driver takes the snapshot without checking the zones. Then the
    // reply about fast restores is lost.
    world.reject(&[DescribeAvailabilityZones]);
    world.ec2.fail_next(EnableFastSnapshotRestores, ErrorClass::Ambiguous, false);
    refused(world.take("snapshot-1", &volume, &zones).await, "Aborted", "fast restores");
    world.replace_driver();
    refused(world.take("snapshot-1", &volume, &zones).await, "Aborted", "us-east-9z");
    assert_eq!(world.snapshots().await, 1);
}
