//! Tests of fast snapshot restores, and of volumes that are initialized from snapshots.

use super::*;
use crate::api::{
    CopyVolumes, DeleteSnapshot, DescribeFastSnapshotRestores, DescribeVolumeStatus, DisableFastSnapshotRestores,
    EnableFastSnapshotRestores, SimFastRestore, SimFastRestores, SimVolumeStatus,
};
use crate::config::{AccountSettings, Quotas, TimingOverride};

fn enable(snapshots: &[&str], zones: &[&str]) -> Call {
    Call::EnableFastSnapshotRestores(EnableFastSnapshotRestores {
        availability_zones: zones.iter().map(|z| (*z).to_owned()).collect(),
        source_snapshot_ids: snapshots.iter().map(|s| (*s).to_owned()).collect(),
        ..Default::default()
    })
}

fn disable(snapshots: &[&str], zones: &[&str]) -> Call {
    Call::DisableFastSnapshotRestores(DisableFastSnapshotRestores {
        availability_zones: zones.iter().map(|z| (*z).to_owned()).collect(),
        source_snapshot_ids: snapshots.iter().map(|s| (*s).to_owned()).collect(),
        ..Default::default()
    })
}

impl World {
    fn disabled(&mut self, snapshots: &[&str], zones: &[&str]) -> SimFastRestores {
        match self.call(disable(snapshots, zones)) {
            Ok(Reply::DisableFastSnapshotRestores(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn enabled(&mut self, snapshots: &[&str], zones: &[&str]) -> SimFastRestores {
        match self.call(enable(snapshots, zones)) {
            Ok(Reply::EnableFastSnapshotRestores(answer)) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn fast_restores(&mut self, state: &str) -> Vec<SimFastRestore> {
        let filters = vec![filter_of("state", &[state])];
        let call = DescribeFastSnapshotRestores { filters, ..Default::default() };
        match self.call(Call::DescribeFastSnapshotRestores(call)) {
            Ok(Reply::DescribeFastSnapshotRestores(listing)) => listing.items,
            other => panic!("{other:?}"),
        }
    }

    fn status(&mut self, volume: &str) -> SimVolumeStatus {
        let call = DescribeVolumeStatus { volume_ids: vec![volume.to_owned()], ..Default::default() };
        match self.call(Call::DescribeVolumeStatus(call)) {
            Ok(Reply::DescribeVolumeStatus(mut listing)) => listing.items.remove(0),
            other => panic!("no status: {other:?}"),
        }
    }

    /// Returns a completed snapshot of this number of GiB.
    fn snapshot_of(&mut self, gib: i64) -> String {
        let volume = self.create(CreateVolume { size: Some(gib), ..gp3() }).id;
        self.pass(Duration::from_secs(30));
        let snapshot = self.snapshot(&volume);
        self.pass(Duration::from_secs(30));
        snapshot
    }

    fn restore(&mut self, snapshot: &str, rate: Option<i64>) -> String {
        let snapshot_id = Some(snapshot.to_owned());
        let call = CreateVolume { snapshot_id, size: None, volume_initialization_rate: rate, ..gp3() };
        let id = self.create(call).id;
        self.pass(Duration::from_secs(2));
        id
    }
}

fn initialization(status: &SimVolumeStatus) -> String {
    status.details.iter().find(|d| d.name == "initialization-state").unwrap().status.clone()
}

/// Volumes from an enabled snapshot are fully initialized at once.
#[test]
fn fast_restore_becomes_enabled_and_creates_full_volumes() {
    let mut world = World::realistic();
    let snapshot = world.snapshot_of(100);
    let answer = world.enabled(&[&snapshot], &["us-west-2a"]);
    assert_eq!(answer.successful[0].state, "enabling");
    assert_eq!(answer.unsuccessful, []);
    assert_eq!(world.fast_restores("enabling").len(), 1);
    world.pass(Duration::from_secs(10));
    assert_eq!(world.fast_restores("optimizing").len(), 1);
    let slow = world.restore(&snapshot, None);
    assert_eq!(initialization(&world.status(&slow)), "initializing");
    world.pass(Duration::from_mins(10));
    assert_eq!(world.fast_restores("enabled").len(), 1);
    let fast = world.restore(&snapshot, None);
    assert_eq!(initialization(&world.status(&fast)), "completed");
    assert!(world.volume(&fast).fast_restored && !world.volume(&slow).fast_restored);
    assert_eq!(world.enabled(&[&snapshot], &["us-west-2a"]).successful[0].state, "enabled", "twice is once");
}

/// DisableFastSnapshotRestores replies with `disabling`. Then `disabled` follows, stays listed, frees its place, and
/// can be enabled again. Each pair that is not enabled has its own error.
#[test]
fn disabled_fast_restore_frees_its_place_and_is_reusable() {
    let quotas = Quotas { fast_restores: Some(1), ..Quotas::default() };
    let mut world = World::realistic();
    world.sim.policy.account.quotas = quotas;
    let (first, second) = (world.snapshot_of(1), world.snapshot_of(1));
    world.enabled(&[&first], &["us-west-2a"]);
    world.pass(Duration::from_mins(1));
    let answer = world.disabled(&[&first], &["us-west-2a"]);
    let changed = &answer.successful[0];
    assert_eq!((changed.state.as_str(), changed.reason.as_str()), ("disabling", "Client.UserInitiated"));
    assert_eq!((changed.disabling_time, changed.disabled_time), (Some(world.now), None));
    assert_eq!(world.fast_restores("disabling").len(), 1);
    let slow = world.restore(&first, None);
    assert!(!world.volume(&slow).fast_restored);
    world.pass(Duration::from_secs(10));
    assert!(world.fast_restores("disabled")[0].disabled_time.is_some());
    assert_eq!(world.enabled(&[&second], &["us-west-2a"]).unsuccessful, [], "its place is free");
    world.disabled(&[&second], &["us-west-2a"]);
    assert_eq!(world.enabled(&[&first], &["us-west-2a"]).successful[0].state, "enabling");
    assert_eq!(world.fast_restores("disabled").len(), 0);
}

#[test]
fn fast_restore_that_is_not_enabled_cannot_be_disabled() {
    let mut world = World::instant();
    let snapshot = world.snapshot_of(1);
    world.enabled(&[&snapshot], &["us-west-2a"]);
    let answer = world.disabled(&[&snapshot, "snap-00000000000000000"], &["us-west-2a", "us-west-2b"]);
    assert_eq!(answer.successful.len(), 1);
    let errors = answer.unsuccessful.iter().flat_map(|(_, errors)| errors);
    let mut codes: Vec<_> = errors.map(|e| (e.zone.as_str(), e.code.as_str())).collect();
    codes.sort_unstable();
    let expected = [
        ("us-west-2a", "InvalidSnapshot.NotFound"),
        ("us-west-2b", "IncorrectState"),
        ("us-west-2b", "InvalidSnapshot.NotFound"),
    ];
    assert_eq!(codes, expected);
    let again = world.disabled(&[&snapshot], &["us-west-2a"]);
    assert_eq!(again.unsuccessful[0].1[0].code, "IncorrectState", "it is off");
    assert_eq!(world.refused(disable(&[], &["us-west-2a"])), "MissingParameter");
    assert_eq!(world.refused(disable(&[&snapshot], &[])), "MissingParameter");
    assert_eq!(world.refused(disable(&["vol-1"], &["us-west-2a"])), "InvalidParameterValue");
}

/// The reply has the successful pairs, too.
#[test]
fn each_failed_zone_of_snapshot_has_its_own_error() {
    let fast_restores = Some(1);
    let account =
        AccountSettings { quotas: Quotas { fast_restores, ..Quotas::default() }, ..AccountSettings::default() };
    let mut world = World::of(EngineConfig { account, ..EngineConfig::default() });
    let (first, second) = (world.snapshot_of(1), world.snapshot_of(1));
    let answer = world.enabled(&[&first], &["us-west-2a", "us-west-2z", "us-west-2-lax-1a"]);
    let codes = |answer: &SimFastRestores| {
        let errors = answer.unsuccessful.iter().flat_map(|(_, errors)| errors);
        errors.map(|e| (e.zone.clone(), e.code.clone())).collect::<Vec<_>>()
    };
    assert_eq!(answer.successful.len(), 1);
    let expected = [("us-west-2-lax-1a", "UnsupportedOperation"), ("us-west-2z", "InvalidParameterValue")];
    assert_eq!(codes(&answer), expected.map(|(zone, code)| (zone.to_owned(), code.to_owned())));
    let answer = world.enabled(&[&second, "snap-00000000000000000"], &["us-west-2a"]);
    let codes: Vec<String> = codes(&answer).into_iter().map(|(_, code)| code).collect();
    assert!(codes.contains(&"FastSnapshotRestoreLimitExceeded".to_owned()), "{codes:?}");
    assert!(codes.contains(&"InvalidSnapshot.NotFound".to_owned()), "{codes:?}");
    let many: Vec<String> = (0..11).map(|n| format!("snap-{n:08}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(world.refused(enable(&many, &["us-west-2a"])), "InvalidRequest");
    assert_eq!(world.refused(enable(&[], &["us-west-2a"])), "MissingParameter");
    assert_eq!(world.refused(enable(&[&first], &[])), "MissingParameter");
    assert_eq!(world.refused(enable(&["vol-1"], &["us-west-2a"])), "InvalidParameterValue");
}

/// The duration follows from size and rate. Status has progress and estimate.
#[test]
fn restored_volume_initializes_at_its_rate() {
    let mut world = World::realistic();
    let snapshot = world.snapshot_of(100);
    let volume = world.restore(&snapshot, Some(100));
    let details = |world: &mut World| {
        let status = world.status(&volume);
        let details = status.initialization.clone().unwrap();
        (initialization(&status), details.initialization_type, details.progress, details.estimated_seconds)
    };
    assert_eq!(details(&mut world), ("initializing".into(), "provisioned-rate".into(), 0, Some(1024)));
    world.pass(Duration::from_secs(512));
    assert_eq!(details(&mut world), ("initializing".into(), "provisioned-rate".into(), 50, Some(512)));
    world.pass(Duration::from_secs(512));
    assert_eq!(details(&mut world), ("completed".into(), "provisioned-rate".into(), 100, None));
}

#[test]
fn blank_volume_is_complete_and_copy_initializes() {
    let mut world = World::realistic();
    let blank = world.create(CreateVolume { size: Some(100), ..gp3() }).id;
    world.pass(Duration::from_secs(2));
    assert_eq!(world.status(&blank).initialization, None);
    assert_eq!(initialization(&world.status(&blank)), "completed");
    let call = CopyVolumes { source_volume_id: blank, ..Default::default() };
    let Ok(Reply::CopyVolumes(copies)) = world.call(Call::CopyVolumes(call)) else { panic!() };
    world.pass(Duration::from_secs(2));
    let status = world.status(&copies[0].id);
    assert_eq!(initialization(&status), "initializing");
    assert_eq!(status.initialization.unwrap().initialization_type, "volume-copy");
}

#[test]
fn initialization_time_can_be_set() {
    let mut world = World::instant();
    let snapshot = world.snapshot_of(1);
    let volume = world.restore(&snapshot, None);
    assert_eq!(initialization(&world.status(&volume)), "completed");
    world.sim.set_timing(TimingOverride { fill_ms: Some(60_000), ..Default::default() });
    let volume = world.restore(&snapshot, None);
    assert_eq!(initialization(&world.status(&volume)), "initializing");
    world.pass(Duration::from_secs(60));
    assert_eq!(initialization(&world.status(&volume)), "completed");
}

/// DescribeVolumeStatus has no filter by volume id, and one missing id fails it.
#[test]
fn volume_status_has_its_own_filters() {
    let mut world = World::instant();
    let volume = world.gp3();
    let by = |name: &str, value: &str| {
        let filters = vec![filter_of(name, &[value])];
        Call::DescribeVolumeStatus(DescribeVolumeStatus { filters, ..Default::default() })
    };
    assert_eq!(world.refused(by("volume-id", &volume)), "InvalidParameterValue");
    assert_eq!(world.refused(by("tag:a", "b")), "InvalidParameterValue");
    for (name, value, count) in [
        ("volume-status.status", "ok", 3),
        ("volume-status.status", "impaired", 0),
        ("volume-status.details-name", "io-enabled", 3),
        ("volume-status.details-status", "passed", 3),
        ("availability-zone", "us-west-2b", 1),
    ] {
        let Ok(Reply::DescribeVolumeStatus(listing)) = world.call(by(name, value)) else { panic!("{name}") };
        assert_eq!(listing.items.len(), count, "{name}={value}");
    }
    let missing =
        DescribeVolumeStatus { volume_ids: vec![volume, "vol-00000000000000000".into()], ..Default::default() };
    assert_eq!(world.refused(Call::DescribeVolumeStatus(missing)), "InvalidVolume.NotFound");
}

#[test]
fn snapshot_with_fast_restore_in_a_zone_is_not_deletable() {
    let mut world = World::realistic();
    let snapshot = world.snapshot_of(1);
    let delete = || Call::DeleteSnapshot(DeleteSnapshot { snapshot_id: snapshot.clone(), dry_run: false });
    world.enabled(&[&snapshot], &["us-west-2a", "us-west-2b"]);
    assert_eq!(world.refused(delete()), "InvalidSnapshot.InUse", "on their way");
    world.pass(Duration::from_mins(10));
    world.disabled(&[&snapshot], &["us-west-2a"]);
    world.pass(Duration::from_mins(1));
    let fault = world.call(delete()).unwrap_err();
    assert!(fault.message.contains("in us-west-2b."), "{fault}");
    world.disabled(&[&snapshot], &["us-west-2b"]);
    assert_eq!(world.refused(delete()), "InvalidSnapshot.InUse", "not off yet");
    world.pass(Duration::from_mins(1));
    world.call(delete()).unwrap();
}
