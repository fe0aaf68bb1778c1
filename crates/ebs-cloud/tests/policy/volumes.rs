use ebs_cloud::{CloudErrorKind, Object};
use ebs_ec2::{Action, ErrorClass, VolumeId, VolumeState};
use ebs_sim::engine::TimingOverride;

use crate::fixture::{Fixture, assert_error, request, spec};

#[tokio::test(start_paused = true)]
async fn get_of_deleting_volume_is_not_found_and_delete_succeeds() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.timing(TimingOverride { delete_ms: Some(5_000), ..TimingOverride::default() }).await;
    assert_eq!(fixture.cloud.volumes.get(&volume).await.unwrap().id, volume);
    for seconds in [0, 1, 10] {
        fixture.pass(seconds).await;
        fixture.delete(&volume).await.unwrap();
        let missing = CloudErrorKind::NotFound(Object::Volume(volume.clone()));
        assert_error(fixture.cloud.volumes.get(&volume).await, missing);
    }
    let never = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    fixture.delete(&never).await.unwrap();
    let malformed = VolumeId::parse("vol-zz").unwrap();
    fixture.delete(&malformed).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn deletion_with_a_lost_reply_is_not_repeated() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Ambiguous, true);
    fixture.delete(&volume).await.unwrap();
    assert_eq!(fixture.count(Action::DeleteVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn volume_in_use_is_not_deleted() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    assert_error(fixture.delete(&volume).await, CloudErrorKind::FailedPrecondition);
    assert_eq!(fixture.cloud.volumes.get(&volume).await.unwrap().state, VolumeState::InUse);
}

#[tokio::test(start_paused = true)]
async fn access_check_distinguishes_refusal_from_outage() {
    let fixture = Fixture::new().await;
    fixture.cloud.check_access().await.unwrap();
    for (class, kind) in [
        (ErrorClass::NotSent, CloudErrorKind::Unavailable),
        (ErrorClass::Ambiguous, CloudErrorKind::Unavailable),
        (ErrorClass::Unauthenticated, CloudErrorKind::Unauthenticated),
        (ErrorClass::Unauthorized, CloudErrorKind::Unauthorized),
    ] {
        fixture.sim.fail_next(Action::DescribeAvailabilityZones, class, false);
        assert_error(fixture.cloud.check_access().await, kind);
    }
    assert_eq!(fixture.count(Action::DescribeAvailabilityZones), 5, "asked once each time, never again");
}

#[tokio::test(start_paused = true)]
async fn volume_that_is_not_listed_yet_is_not_deleted() {
    let (fixture, volume) = Fixture::with_volume().await;
    fixture.ec2.hide_volumes(14);
    fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Ambiguous, false);
    fixture.delete(&volume).await.unwrap();
    assert!(fixture.volumes().await.is_empty(), "reported deleted while it exists");
    assert_eq!(fixture.count(Action::DeleteVolume), 2);
}

#[tokio::test(start_paused = true)]
async fn volume_in_creation_is_deleted_when_it_is_available() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(20_000), ..TimingOverride::default() }).await;
    let id = fixture.stranger(request(&spec("pvc-1"), "token")).await;
    fixture.delete(&id).await.unwrap();
    fixture.pass(60).await;
    assert!(fixture.volumes().await.is_empty());
}
