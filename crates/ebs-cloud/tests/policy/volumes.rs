use ebs_cloud::{CloudError, CloudErrorKind, Object};
use ebs_ec2::{Action, ErrorClass, VolumeState};
use ebs_sim::engine::TimingOverride;
use ebs_types::VolumeId;

use crate::fixture::Fixture;

/// This includes volumes that are being deleted and malformed ids.
#[tokio::test(start_paused = true)]
async fn delete_of_a_missing_volume_succeeds() {
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

#[tokio::test(start_paused = true)]
async fn volume_being_deleted_does_not_exist() {
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

#[tokio::test(start_paused = true)]
async fn deletion_with_a_lost_reply_is_not_repeated() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Ambiguous, true);
    fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DeleteVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn unclear_deletion_is_repeated_after_a_describe() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    fixture.sim.fail_next(Action::DeleteVolume, ErrorClass::Ambiguous, false);
    fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap();
    assert_eq!(fixture.count(Action::DeleteVolume), 2);
    assert!(fixture.volumes().await.is_empty());
}

#[tokio::test(start_paused = true)]
async fn volume_in_use_is_not_deleted() {
    let fixture = Fixture::new().await;
    let volume = fixture.volume("pvc-1").await;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume.id, &node, &fixture.waiters).await.unwrap();
    let error = fixture.cloud.volumes.delete(&volume.id, &fixture.waiters).await.unwrap_err();
    assert!(matches!(error.kind, CloudErrorKind::FailedPrecondition), "{error:?}");
    assert_eq!(fixture.cloud.volumes.get(&volume.id).await.unwrap().state, VolumeState::InUse);
}

/// It makes a single call.
#[tokio::test(start_paused = true)]
async fn access_check_distinguishes_refusal_and_outage() {
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

#[tokio::test(start_paused = true)]
async fn volume_that_is_not_listed_yet_is_not_deleted() {
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
    assert!(fixture.volumes().await.is_empty(), "reported deleted while it exists");
}

#[tokio::test(start_paused = true)]
async fn volume_in_creation_is_deleted_when_it_is_available() {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { create_ms: Some(20_000), ..TimingOverride::default() }).await;
    let id = fixture.stranger(crate::fixture::request(&crate::fixture::spec("pvc-1"), "token")).await;
    fixture.cloud.volumes.delete(&id, &fixture.waiters).await.unwrap();
    fixture.pass(60).await;
    assert!(fixture.volumes().await.is_empty());
}
