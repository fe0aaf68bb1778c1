//! The zone of a volume when some zones do not support it.

use ebs_cloud::{CloudErrorKind, Source, VolumeSpec};
use ebs_ec2::{Action, ErrorClass, IopsRequest, VolumeType};
use ebs_sim::engine::{AccountSettings, EngineConfig};

use crate::fixture::{Fixture, assert_error, in_zone, message_of, snapshot_spec, spec, zone};

/// Creates an account whose zone us-west-2c does not support the volume type.
async fn without(volume_type: &str) -> Fixture {
    let missing_volume_types = [("us-west-2c".to_owned(), vec![volume_type.to_owned()])].into();
    let account = AccountSettings { missing_volume_types, ..AccountSettings::default() };
    Fixture::with(EngineConfig { account, ..EngineConfig::default() }).await
}

fn io2(name: &str) -> VolumeSpec {
    VolumeSpec { volume_type: VolumeType::Io2, iops: IopsRequest::explicit(200), ..spec(name) }
}

/// Returns the zones of the creations so far.
fn zones_asked(fixture: &Fixture) -> Vec<String> {
    fixture.creations().into_iter().filter_map(|request| request.availability_zone).collect()
}

#[tokio::test(start_paused = true)]
async fn zone_without_the_volume_type_is_skipped_by_the_retry() {
    let fixture = without("io2").await;
    let mut was_refused = false;
    for n in 0..12 {
        let wanted = io2(&format!("pvc-{n}"));
        let mut made = fixture.create(&wanted).await;
        if let Err(error) = &made {
            was_refused = true;
            let told = message_of(error);
            assert_eq!(error.kind, CloudErrorKind::InsufficientCapacity, "{told}");
            assert!(told.contains("us-west-2c") && told.contains("VolumeTypeNotAvailableInZone"), "{told}");
            made = fixture.create(&wanted).await;
        }
        assert_ne!(made.unwrap().zone, Some(zone("us-west-2c")), "{n}");
    }
    assert!(was_refused, "some of the names begin with that zone");
}

/// The provisioner's longest pause between two calls is 30 minutes.
#[tokio::test(start_paused = true)]
async fn zone_without_the_type_is_skipped_after_a_long_pause() {
    let fixture = without("io2").await;
    let mut was_refused = false;
    for n in 0..6 {
        let wanted = io2(&format!("pvc-{n}"));
        if fixture.create(&wanted).await.is_err() {
            was_refused = true;
            fixture.pass(1800).await;
            let made = fixture.create(&wanted).await.unwrap();
            assert_ne!(made.zone, Some(zone("us-west-2c")), "{n}");
        }
    }
    assert!(was_refused, "some of the names begin with that zone");
}

/// If the request allows only one zone, the message offers no other zone.
#[tokio::test(start_paused = true)]
async fn message_offers_another_zone_only_if_it_is_allowed() {
    let fixture = Fixture::new().await;
    for (wanted, has_others) in [(in_zone(spec("pvc-1"), "us-west-2a"), false), (spec("pvc-2"), true)] {
        fixture.sim.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
        let told = message_of(&fixture.create(&wanted).await.unwrap_err());
        assert_eq!(told.contains("another zone"), has_others, "{told}");
    }
}

#[tokio::test(start_paused = true)]
async fn restored_volume_skips_a_zone_without_its_type() {
    let fixture = without("io2").await;
    let origin = fixture.volume("origin").await;
    let taken = fixture.snapshot(&snapshot_spec("snap", &origin.id)).await;
    let source = Source::Snapshot(taken.unwrap().id);
    fixture.pass(20).await;
    for n in 0..6 {
        let wanted = VolumeSpec { source: source.clone(), ..io2(&format!("pvc-{n}")) };
        let made = match fixture.create(&wanted).await {
            Err(error) => {
                assert_eq!(error.kind, CloudErrorKind::InsufficientCapacity, "{error:?}");
                fixture.create(&wanted).await.unwrap()
            }
            Ok(made) => made,
        };
        assert_ne!(made.zone, Some(zone("us-west-2c")));
    }
}

/// The zone of a clone is fixed, so the StorageClass has to change.
#[tokio::test(start_paused = true)]
async fn clone_in_a_zone_without_its_type_is_invalid() {
    let fixture = without("io2").await;
    let origin = fixture.create(&in_zone(spec("origin"), "us-west-2c")).await.unwrap();
    let clone = VolumeSpec { source: Source::Volume(origin.id.clone()), ..io2("pvc-1") };
    assert_error(fixture.create(&clone).await, CloudErrorKind::InvalidArgument);
}

/// The fourth refusal begins the second round.
#[tokio::test(start_paused = true)]
async fn second_round_tries_each_full_zone_again() {
    let fixture = Fixture::new().await;
    for _ in 0..6 {
        fixture.sim.fail_next(Action::CreateVolume, ErrorClass::InsufficientCapacity, false);
        fixture.create(&spec("pvc-1")).await.unwrap_err();
    }
    let zones = zones_asked(&fixture);
    assert_eq!(zones[..3], zones[3..], "both rounds in the same order");
    let mut round = zones[..3].to_vec();
    round.sort();
    assert_eq!(round, ["us-west-2a", "us-west-2b", "us-west-2c"]);
}

#[tokio::test(start_paused = true)]
async fn unavailable_zone_is_not_chosen() {
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
