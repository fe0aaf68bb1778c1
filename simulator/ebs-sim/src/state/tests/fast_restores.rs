//! Tests of fast snapshot restores, and of volumes that are initialized from snapshots.

use super::*;
use crate::api::{SimFastRestores, SimVolumeStatus};

/// Returns the parameters for snapshots and zones, both given as comma-separated lists.
fn pairs(snapshots: &str, zones: &str) -> String {
    let list = |name: &str, values: &str| -> String {
        let values = values.split(',').filter(|value| !value.is_empty());
        (1..).zip(values).map(|(n, value)| format!(" {name}.{n}={value}")).collect()
    };
    list("SourceSnapshotId", snapshots) + &list("AvailabilityZone", zones)
}

impl World {
    fn enable(&mut self, snapshots: &str, zones: &str) -> SimFastRestores {
        ok!(self, EnableFastSnapshotRestores, "{}", pairs(snapshots, zones))
    }

    fn disable(&mut self, snapshots: &str, zones: &str) -> SimFastRestores {
        ok!(self, DisableFastSnapshotRestores, "{}", pairs(snapshots, zones))
    }

    fn in_state(&mut self, state: &str) -> usize {
        ok!(self, DescribeFastSnapshotRestores, "{}", by("state", state)).items.len()
    }

    fn status(&mut self, volume: &str) -> SimVolumeStatus {
        ok!(self, DescribeVolumeStatus, "VolumeId.1={volume}").items.remove(0)
    }

    fn snapshot_of(&mut self, gib: i64) -> String {
        let volume = self.create(&format!("Size={gib}")).id;
        self.pass(secs(30));
        let snapshot = self.snapshot(&volume);
        self.pass(secs(30));
        snapshot
    }

    fn restore(&mut self, snapshot: &str, more: &str) -> String {
        let id = self.create(&format!("SnapshotId={snapshot} !Size {more}")).id;
        self.pass(secs(2));
        id
    }

    fn initialization(&mut self, volume: &str) -> String {
        let details = self.status(volume).details;
        details.into_iter().find(|d| d.name == "initialization-state").unwrap().status
    }
}

fn errors(answer: &SimFastRestores) -> Vec<(&str, &str)> {
    let errors = answer.unsuccessful.iter().flat_map(|(_, errors)| errors);
    let mut errors: Vec<_> = errors.map(|e| (e.zone.as_str(), e.code.as_str())).collect();
    errors.sort_unstable();
    errors
}

#[test]
fn volume_from_enabled_fast_restore_is_initialized_at_once() {
    let mut world = World::realistic();
    let snapshot = world.snapshot_of(100);
    let answer = world.enable(&snapshot, "us-west-2a");
    assert_eq!((answer.successful[0].state.as_str(), answer.unsuccessful.len()), ("enabling", 0));
    assert_eq!(world.in_state("enabling"), 1);
    world.pass(secs(10));
    assert_eq!(world.in_state("optimizing"), 1);
    let slow = world.restore(&snapshot, "");
    assert_eq!(world.initialization(&slow), "initializing");
    world.pass(secs(600));
    assert_eq!(world.in_state("enabled"), 1);
    let fast = world.restore(&snapshot, "");
    assert_eq!(world.initialization(&fast), "completed");
    assert!(world.volume(&fast).fast_restored && !world.volume(&slow).fast_restored);
    assert_eq!(world.enable(&snapshot, "us-west-2a").successful[0].state, "enabled", "twice is once");
}

/// The state is `disabling`, then `disabled`, which stays listed.
#[test]
fn disabled_fast_restore_frees_quota_and_can_be_enabled_again() {
    let mut world = World::realistic();
    world.sim.policy.account.quotas = Quotas { fast_restores: Some(1), ..Quotas::default() };
    let (first, second) = (world.snapshot_of(1), world.snapshot_of(1));
    world.enable(&first, "us-west-2a");
    world.pass(secs(60));
    let answer = world.disable(&first, "us-west-2a");
    let changed = &answer.successful[0];
    assert_eq!((changed.state.as_str(), changed.reason.as_str()), ("disabling", "Client.UserInitiated"));
    assert_eq!((changed.disabling_time, changed.disabled_time), (Some(world.now), None));
    assert_eq!(world.in_state("disabling"), 1);
    let slow = world.restore(&first, "");
    assert!(!world.volume(&slow).fast_restored);
    world.pass(secs(10));
    assert_eq!(world.in_state("disabled"), 1);
    assert_eq!(world.enable(&second, "us-west-2a").unsuccessful, [], "its place is free");
    world.disable(&second, "us-west-2a");
    assert_eq!(world.enable(&first, "us-west-2a").successful[0].state, "enabling");
    assert_eq!(world.in_state("disabled"), 0);
}

#[test]
fn fast_restore_that_is_not_enabled_cannot_be_disabled() {
    let mut world = World::instant();
    let snapshot = world.snapshot_of(1);
    world.enable(&snapshot, "us-west-2a");
    let answer = world.disable(&format!("{snapshot},snap-00000000000000000"), "us-west-2a,us-west-2b");
    assert_eq!(answer.successful.len(), 1);
    let expected = [
        ("us-west-2a", "InvalidSnapshot.NotFound"),
        ("us-west-2b", "IncorrectState"),
        ("us-west-2b", "InvalidSnapshot.NotFound"),
    ];
    assert_eq!(errors(&answer), expected);
    assert_eq!(errors(&world.disable(&snapshot, "us-west-2a")), [("us-west-2a", "IncorrectState")], "it is off");
}

/// The reply also lists the snapshots and zones for which the call succeeded.
#[test]
fn each_failed_zone_of_snapshot_has_its_own_error() {
    let mut world = World::with_quotas(Quotas { fast_restores: Some(1), ..Quotas::default() });
    let (first, second) = (world.snapshot_of(1), world.snapshot_of(1));
    let answer = world.enable(&first, "us-west-2a,us-west-2z,us-west-2-lax-1a");
    assert_eq!(answer.successful.len(), 1);
    let expected = [("us-west-2-lax-1a", "UnsupportedOperation"), ("us-west-2z", "InvalidParameterValue")];
    assert_eq!(errors(&answer), expected);
    let answer = world.enable(&format!("{second},snap-00000000000000000"), "us-west-2a");
    let expected = [("us-west-2a", "FastSnapshotRestoreLimitExceeded"), ("us-west-2a", "InvalidSnapshot.NotFound")];
    assert_eq!(errors(&answer), expected);
    let many: Vec<String> = (0..11).map(|n| format!("snap-{n:08}")).collect();
    for action in ["Enable", "Disable"] {
        world.refuses(
            [
                (pairs(&many.join(","), "us-west-2a"), "InvalidRequest"),
                (pairs("", "us-west-2a"), "MissingParameter"),
                (pairs(&first, ""), "MissingParameter"),
                (pairs("vol-1", "us-west-2a"), "InvalidParameterValue"),
            ]
            .map(|(pairs, code)| (format!("{action}FastSnapshotRestores {pairs}"), code)),
        );
    }
}

/// The duration depends on the size and the rate. The status shows the progress and an estimate.
#[test]
fn restored_volume_initializes_at_its_rate() {
    let mut world = World::realistic();
    let snapshot = world.snapshot_of(100);
    let volume = world.restore(&snapshot, "VolumeInitializationRate=100");
    for (state, progress, left) in
        [("initializing", 0, Some(1024)), ("initializing", 50, Some(512)), ("completed", 100, None)]
    {
        let details = world.status(&volume).initialization.unwrap();
        assert_eq!(world.initialization(&volume), state);
        assert_eq!((details.initialization_type.as_str(), details.progress), ("provisioned-rate", progress));
        assert_eq!(details.estimated_seconds, left);
        world.pass(secs(512));
    }
}

#[test]
fn blank_volume_needs_no_initialization_but_a_copy_does() {
    let mut world = World::realistic();
    let blank = world.create("Size=100").id;
    world.pass(secs(2));
    assert_eq!((world.status(&blank).initialization, world.initialization(&blank)), (None, "completed".to_owned()));
    let copy = ok!(world, CopyVolumes, "SourceVolumeId={blank}").remove(0).id;
    world.pass(secs(2));
    assert_eq!(world.initialization(&copy), "initializing");
    assert_eq!(world.status(&copy).initialization.unwrap().initialization_type, "volume-copy");
}

#[test]
fn initialization_time_can_be_set() {
    let mut world = World::instant();
    let snapshot = world.snapshot_of(1);
    let volume = world.restore(&snapshot, "");
    assert_eq!(world.initialization(&volume), "completed");
    world.sim.set_timing(TimingOverride { fill_ms: Some(60_000), ..Default::default() });
    let volume = world.restore(&snapshot, "");
    assert_eq!(world.initialization(&volume), "initializing");
    world.pass(secs(60));
    assert_eq!(world.initialization(&volume), "completed");
}

/// DescribeVolumeStatus has no filter by volume id, and fails if a requested volume id does not exist.
#[test]
fn volume_status_has_its_own_filters() {
    let mut world = World::instant();
    let volume = world.gp3();
    world.refuses([
        (format!("DescribeVolumeStatus {}", by("volume-id", &volume)), "InvalidParameterValue"),
        (format!("DescribeVolumeStatus {}", by("tag:a", "b")), "InvalidParameterValue"),
        (format!("DescribeVolumeStatus VolumeId.1={volume} VolumeId.2=vol-00000000"), "InvalidVolume.NotFound"),
    ]);
    for (name, value, count) in [
        ("volume-status.status", "ok", 3),
        ("volume-status.status", "impaired", 0),
        ("volume-status.details-name", "io-enabled", 3),
        ("volume-status.details-status", "passed", 3),
        ("availability-zone", "us-west-2b", 1),
    ] {
        assert_eq!(ok!(world, DescribeVolumeStatus, "{}", by(name, value)).items.len(), count, "{name}={value}");
    }
}

#[test]
fn snapshot_with_fast_restore_in_a_zone_is_not_deletable() {
    let mut world = World::realistic();
    let snapshot = world.snapshot_of(1);
    let delete = format!("DeleteSnapshot SnapshotId={snapshot}");
    world.enable(&snapshot, "us-west-2a,us-west-2b");
    assert_eq!(world.refused(&delete), "InvalidSnapshot.InUse", "on their way");
    world.pass(secs(600));
    world.disable(&snapshot, "us-west-2a");
    world.pass(secs(60));
    let fault = world.call(&delete).unwrap_err();
    assert!(fault.message.contains("in us-west-2b."), "{fault}");
    world.disable(&snapshot, "us-west-2b");
    assert_eq!(world.refused(&delete), "InvalidSnapshot.InUse", "not off yet");
    world.pass(secs(60));
    world.done(&delete);
}
