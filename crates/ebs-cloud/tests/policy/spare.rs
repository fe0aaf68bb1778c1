//! One more DetachVolume where that tells at once what time would tell.

use std::time::Duration;

use ebs_ec2::{Action, ErrorClass};
use ebs_sim::engine::TimingOverride;
use ebs_types::{NodeId, VolumeId};
use tokio::time::Instant;

use crate::fixture::Fixture;

/// A volume that was attached a moment ago to the machine's own instance.
async fn attached() -> (Fixture, VolumeId, NodeId) {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    fixture.timing(TimingOverride { detach_ms: Some(1_000), ..TimingOverride::default() }).await;
    let volume = fixture.volume("pvc-1").await.id;
    let [node, _] = fixture.nodes().await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.expect("the attachment is possible");
    (fixture, volume, node)
}

async fn detach_for_real(fixture: &Fixture, volume: &VolumeId, node: &NodeId) -> Duration {
    let began = Instant::now();
    fixture.cloud.attachments.detach(volume, node, &fixture.waiters).await.expect("it can be detached");
    assert!(fixture.volumes().await.iter().all(|v| v.attachments.is_empty()), "reported detached while attached");
    began.elapsed()
}

/// Where EC2 has accepted DetachVolume, a look lists nothing and the proof would take more than half a second, one more
/// DetachVolume asks. With a limit of 2 s, Unpublish would miss its target of one second.
#[tokio::test(start_paused = true)]
async fn a_young_attachment_is_proven_gone_at_once_by_one_more_call() {
    let (fixture, volume, node) = attached().await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!((fixture.count(Action::DetachVolume), fixture.accepted(Action::DetachVolume)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn one_more_call_is_not_made_for_a_wait_of_less_than_half_a_second() {
    let (fixture, volume, node) = attached().await;
    fixture.pass(13).await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(fixture.count(Action::DetachVolume), 1);
}

/// The further DetachVolume, which only asks, is made only while the bucket is believed at least half full.
#[tokio::test(start_paused = true)]
async fn one_more_call_takes_no_token_from_anybody() {
    let (fixture, volume, node) = attached().await;
    let mut others = tokio::task::JoinSet::new();
    for n in 0..45 {
        let other = VolumeId::parse(&format!("vol-0123456789abcde{n:02}")).expect("an id");
        let (cloud, node, waiters) = (fixture.cloud.clone(), node.clone(), fixture.waiters.clone());
        others.spawn(
            async move { cloud.attachments.detach(&other, &node, &waiters).await.expect("nothing is attached") },
        );
    }
    others.join_all().await;
    fixture.sim.clear_calls();
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took >= Duration::from_secs(8), "{took:?}");
    assert_eq!(fixture.count(Action::DetachVolume), 1, "the bucket is less than half full");
}

/// Only `in the 'available' state` makes it the proof; after any other refusal or a lost answer the wait goes on, and
/// there is no third call.
#[tokio::test(start_paused = true)]
async fn only_the_state_itself_proves_an_end_and_no_missing_thing() {
    for class in [
        ErrorClass::AttachmentNotFound,
        ErrorClass::VolumeNotFound,
        ErrorClass::InstanceNotFound,
        ErrorClass::IncorrectState,
        ErrorClass::Throttled,
        ErrorClass::NotSent,
        ErrorClass::Ambiguous,
    ] {
        let (fixture, volume, node) = attached().await;
        fixture.timing(TimingOverride { detach_ms: Some(20_000), ..TimingOverride::default() }).await;
        fixture.ec2.hide_attachments(Duration::from_secs(14));
        let gate = fixture.sim.hold(Action::DetachVolume);
        let (took, ()) = tokio::join!(detach_for_real(&fixture, &volume, &node), async {
            gate.reached().await;
            gate.release();
            tokio::time::sleep(Duration::from_millis(1)).await;
            fixture.sim.fail_next(Action::DetachVolume, class, false);
        });
        assert!(took >= Duration::from_secs(20), "{class:?}: {took:?}");
        assert_eq!(fixture.count(Action::DetachVolume), 2, "{class:?}: once and no more");
    }
}
