//! How the driver chooses a volume's zone when some zones do not support the volume.

use ebs_cloud::{CloudErrorKind, Source, VolumeSpec};
use ebs_ec2::{Action, ErrorClass, IopsRequest, VolumeType};
use ebs_sim::engine::{AccountSettings, EngineConfig};

use crate::fixture::{Fixture, assert_error, assert_mentions, in_zone, message_of, snapshot_spec, spec, zone};

async fn without(volume_type: &str) -> Fixture {
    let missing_volume_types = [("us-west-2c".to_owned(), vec![volume_type.to_owned()])].into();
    let account = AccountSettings { missing_volume_types, ..AccountSettings::default() };
    Fixture::with(EngineConfig { account, ..EngineConfig::default() }).await
}

fn io2(name: &str) -> VolumeSpec {
    VolumeSpec { volume_type: VolumeType::Io2, iops: IopsRequest::explicit(200), ..spec(name) }
}

fn zones_asked(fixture: &Fixture) -> Vec<String> {
    fixture.creations().into_iter().filter_map(|request| request.availability_zone).collect()
}

/// The provisioner's longest pause between two calls is 30 minutes.
#[tokio::test(start_paused = true)]
async fn zone_without_the_volume_type_is_skipped_by_the_retry() {
    let fixture = without("io2").await;
    let origin = fixture.volume("origin").await;
    let snapshot = fixture.snapshot(&snapshot_spec("snap", &origin.id)).await.unwrap();
    fixture.pass(20).await;
    for (pause, source) in [(0, Source::Blank), (1800, Source::Blank), (0, Source::Snapshot(snapshot.id))] {
        let mut was_refused = false;
        for n in 0..12 {
            let wanted = VolumeSpec { source: source.clone(), ..io2(&format!("pvc-{n}-{pause}-{source:?}")) };
            let mut made = fixture.create(&wanted).await;
            if let Err(error) = &made {
                was_refused = true;
                assert_eq!(error.kind, CloudErrorKind::InsufficientCapacity, "{error:?}");
                assert_mentions(error, &["us-west-2c", "VolumeTypeNotAvailableInZone"]);
                fixture.pass(pause).await;
                made = fixture.create(&wanted).await;
            }
            assert_ne!(made.unwrap().zone, Some(zone("us-west-2c")), "{n}");
        }
        assert!(was_refused, "some of the names begin with that zone");
    }
}

/// If the request allows only one zone, the message does not offer another.
#[tokio::test(start_paused = true)]
async fn capacity_error_offers_another_zone_only_if_it_is_allowed() {
    let fixture = Fixture::new().await;
    for (wanted, has_others) in [(in_zone(spec("pvc-1"), "us-west-2a"), false), (spec("pvc-2"), true)] {
        fixture.sim.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
        let told = message_of(&fixture.create(&wanted).await.unwrap_err());
        assert_eq!(told.contains("another zone"), has_others, "{told}");
    }
}

/// A clone must be in its source's zone, so the user must change the StorageClass.
#[tokio::test(start_paused = true)]
async fn clone_in_a_zone_without_its_volume_type_is_invalid() {
    let fixture = without("io2").await;
    let origin = fixture.create(&in_zone(spec("origin"), "us-west-2c")).await.unwrap();
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..io2("pvc-1") };
    assert_error(fixture.create(&clone).await, CloudErrorKind::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn second_round_tries_each_full_zone_again() {
    let fixture = Fixture::new().await;
    for tried in [1, 2, 3, 1, 2, 3] {
        fixture.sim.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
        let error = assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::InsufficientCapacity);
        assert_eq!(message_of(&error).matches("us-west-2").count(), tried, "{}", message_of(&error));
    }
    let zones = zones_asked(&fixture);
    assert_eq!(zones[..3], zones[3..], "both rounds in the same order");
    let mut round = zones[..3].to_vec();
    round.sort();
    assert_eq!(round, ["us-west-2a", "us-west-2b", "us-west-2c"]);
}

#[tokio::test(start_paused = true)]
async fn unavailable_zone_is_never_chosen() {
    let fixture = Fixture::new().await;
    fixture.ec2.override_zones(|zones| {
        zones.iter_mut().filter(|z| z.name.as_str() != "us-west-2b").for_each(|z| z.available = false)
    });
    for n in 0..6 {
        let made = fixture.create(&spec(&format!("pvc-{n}"))).await.unwrap();
        assert_eq!(made.zone, Some(zone("us-west-2b")));
    }
}

#[tokio::test(start_paused = true)]
async fn empty_zone_listing_is_not_cached() {
    let fixture = Fixture::new().await;
    fixture.ec2.override_zones(Vec::clear);
    assert_error(fixture.create(&spec("pvc-1")).await, CloudErrorKind::InsufficientCapacity);
    fixture.ec2.clear_overrides();
    fixture.create(&spec("pvc-1")).await.unwrap();
}
