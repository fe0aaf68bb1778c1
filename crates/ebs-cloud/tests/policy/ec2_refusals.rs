//! Tests temporary refusals by EC2: during a modification, while an instance terminates, and with fast restores.

use std::time::Duration;

use ebs_cloud::{CloudErrorKind, SnapshotFeatures};
use ebs_ec2::{Action, ErrorClass, Gib, ModifyVolume, NodeId, VolumeId, Volumes};
use ebs_sim::api::{Call, DisableFastSnapshotRestores};
use ebs_sim::engine::TimingOverride;
use tokio::time::Instant;

use crate::fixture::{Fixture, assert_error, assert_mentions, snapshot_spec, zone};

async fn modifying(fixture: &Fixture, seconds: u64) -> VolumeId {
    let volume = fixture.volume("pvc-1").await.id;
    fixture.timing(TimingOverride { modify_ms: Some(seconds * 1000), ..Default::default() }).await;
    let (size, volume_type, iops, throughput) = (Some(Gib(9)), None, None, None);
    let request = ModifyVolume { volume: volume.clone(), size, volume_type, iops, throughput };
    fixture.sim.by_test().modify_volume(&request).await.expect("a volume can be modified");
    volume
}

/// EC2 may not list the modification at first.
#[tokio::test(start_paused = true)]
async fn attach_waits_until_the_modification_ends() {
    for hidden in [0, 14] {
        let fixture = Fixture::new().await;
        let volume = modifying(&fixture, 40).await;
        let [node, _] = fixture.nodes().await;
        fixture.ec2.hide_modifications(hidden);
        let began = Instant::now();
        fixture.attach(&volume, &node).await.expect("it is attached in the end");
        let took = began.elapsed();
        assert!(took >= Duration::from_secs(40) && took < Duration::from_secs(60), "{took:?}");
        let calls = fixture.count(Action::AttachVolume);
        assert!(calls >= 2 && calls <= if hidden == 0 { 3 } else { 4 }, "{calls} calls");
    }
}

#[tokio::test(start_paused = true)]
async fn attach_error_names_the_modification_that_blocks_it() {
    let fixture = Fixture::new().await;
    let volume = modifying(&fixture, 3600).await;
    let [node, _] = fixture.nodes().await;
    let error = assert_error(fixture.attach(&volume, &node).await, CloudErrorKind::InProgress);
    assert_mentions(&error, &["the modification to 9 GiB (started at", "MODIFYING"]);
    assert!(fixture.count(Action::AttachVolume) <= 2);
}

async fn terminate_within(fixture: &Fixture, node: &NodeId, seconds: u64) {
    fixture.timing(TimingOverride { terminate_ms: Some(seconds * 1000), ..Default::default() }).await;
    fixture.terminate(node).await;
}

#[tokio::test(start_paused = true)]
async fn detach_waits_until_a_shutting_down_instance_terminates() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    terminate_within(&fixture, &node, 90).await;
    let began = Instant::now();
    fixture.detach(&volume, &node).await.expect("it ends with the instance");
    assert!(began.elapsed() >= Duration::from_secs(90), "{:?}", began.elapsed());
    assert!(fixture.volumes().await.iter().all(|v| v.attachments.is_empty()));
    assert_eq!(fixture.count(Action::DetachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn detach_from_an_instance_hung_in_shutdown_is_in_progress() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    terminate_within(&fixture, &node, 3600).await;
    let error = assert_error(fixture.detach(&volume, &node).await, CloudErrorKind::InProgress);
    assert_mentions(&error, &["until the instance is terminated", "IncorrectInstanceState"]);
}

#[tokio::test(start_paused = true)]
async fn detach_error_names_another_service_as_the_owner() {
    let (fixture, volume, node) = Fixture::with_volume_and_node().await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.sim.fail_next(Action::DetachVolume, ErrorClass::Unsupported, false);
    let error = assert_error(fixture.detach(&volume, &node).await, CloudErrorKind::FailedPrecondition);
    assert_mentions(&error, &["another service"]);
}

#[tokio::test(start_paused = true)]
async fn snapshot_delete_error_names_zones_with_fast_restores() {
    let (fixture, volume) = Fixture::with_volume().await;
    let zones = vec![zone("us-west-2a"), zone("us-west-2b")];
    let features = SnapshotFeatures { fast_restore_zones: zones, ..SnapshotFeatures::default() };
    let id = fixture.ensure(&snapshot_spec("snap-a", &volume), &features).await.unwrap().id;
    fixture.pass(60).await;
    let error = assert_error(fixture.delete_snapshot(&id).await, CloudErrorKind::FailedPrecondition);
    let text = error.to_string();
    assert!(
        text.contains("enabled in us-west-2a, us-west-2b") && text.contains("disable-fast-snapshot-restores"),
        "{text}"
    );
    let call = DisableFastSnapshotRestores {
        source_snapshot_ids: vec![id.to_string()],
        availability_zones: vec!["us-west-2a".to_owned(), "us-west-2b".to_owned()],
        ..Default::default()
    };
    fixture.sim.engine().call(Call::DisableFastSnapshotRestores(call)).await.unwrap();
    fixture.pass(60).await;
    fixture.delete_snapshot(&id).await.expect("they are off");
}
