use ebs_cloud::{CloudError, CloudErrorKind, Object};
use ebs_ec2::{Action, ErrorClass, VolumeState};
use ebs_sim::engine::TimingOverride;
use ebs_types::VolumeId;

use crate::fixture::Fixture;

/// Deleting a volume that is gone, going, malformed or never was succeeds.
#[tokio::test(start_paused = true)]
async fn deleting_a_volume_that_is_gone_going_or_never_was_succeeds() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { delete_ms: Some(5_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    for seconds in [0, 1, 10] {
        fixture.pass(seconds).await;
        fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    }
    let never = VolumeId::parse("vol-0123456789abcdef0").unwrap();
    fixture.cloud.volumes.delete(&never, &fixture.waiters).await.unwrap();
    let malformed = VolumeId::parse("vol-zz").unwrap();
    fixture.cloud.volumes.delete(&malformed, &fixture.waiters).await.unwrap();
}

/// A volume being deleted does not exist.
#[tokio::test(start_paused = true)]
async fn a_volume_being_deleted_does_not_exist() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { delete_ms: Some(5_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await;
    assert_eq!(fixture.cloud.volumes.get(&volume.id).await.unwrap().id, volume.id);
    fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    match fixture.cloud.volumes.get(&volume.id).await.unwrap_err() {
        CloudError { kind: CloudErrorKind::NotFound(object), .. } => assert_eq!(object, Object::Volume(volume.id)),
        other => panic!("{other:?}"),
    }
}

/// A deletion whose reply was lost is seen and not repeated.
#[tokio::test(start_paused = true)]
async fn a_deletion_whose_reply_was_lost_is_seen_and_not_repeated() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Ambiguous, true);
    fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DeleteVolume), 1);
}

/// A deletion of unclear outcome is looked at before it is repeated.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_did_not_happen_is_repeated_after_the_describe() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Ambiguous, false);
    fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DeleteVolume), 2);
    assert!(fixture.volumes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_volume_in_use_is_not_deleted() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    let error = fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{error:?}");
    assert_eq!(fixture.cloud.volumes.get(&volume.id).await.unwrap().state, VolumeState::InUse);
}

/// The access check asks once and tells a refusal from an unreachable EC2.
#[tokio::test(start_paused = true)]
async fn the_access_check_tells_a_refusal_from_an_unreachable_ec2() {
    let fixture = Fixture::new().await;
    fixture.cloud.check_access().await.unwrap();
    for (class, kind) in [
        (ErrorClass::NotSent, CloudErrorKind::Unavailable),
        (ErrorClass::Ambiguous, CloudErrorKind::Unavailable),
        (ErrorClass::Unauthenticated, CloudErrorKind::Unauthenticated),
        (ErrorClass::Unauthorized, CloudErrorKind::Unauthorized),
    ] {
        fixture.sim.fail_next(Action::DescribeAvailabilityZones, class, false);
        let error = fixture.cloud.check_access().await.unwrap_err();
        assert_eq!(error.kind, kind, "{error:?}");
    }
    assert_eq!(fixture.count(Action::DescribeAvailabilityZones), 5, "asked once each time, never again");
}

/// A volume that looks do not show yet is not taken for deleted.
#[tokio::test(start_paused = true)]
async fn a_volume_that_describes_do_not_show_yet_is_not_taken_for_deleted() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let began = tokio::time::Instant::now();
    fixture.ec2.override_volumes(move |volumes| {
        if began.elapsed().as_secs() < 14 {
            volumes.clear();
        }
    });
    fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Ambiguous, false);
    fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    assert!(fixture.volumes().await.is_empty(), "reported deleted while it is there");
}

/// A volume still being created is deleted when it can be.
#[tokio::test(start_paused = true)]
async fn a_volume_still_being_created_is_deleted_when_it_can_be() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(20_000), ..TimingOverride::default() }).await;
    let id = fixture.stranger(crate::fixture::request(&crate::fixture::spec("pvc-1"), "token")).await;
    fixture.cloud.volumes.delete(&id, &fixture.waiters).await.unwrap();
    fixture.pass(60).await;
    assert!(fixture.volumes().await.is_empty());
}
