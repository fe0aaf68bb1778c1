//! The extra DetachVolume, which replaces a longer wait.

use std::time::Duration;

use ebs_ec2::{Action, ErrorClass, NodeId, VolumeId};
use ebs_sim::engine::TimingOverride;
use tokio::time::Instant;

use crate::fixture::Fixture;

/// Returns a volume that was attached to the machine's own instance a moment ago.
async fn attached() -> (Fixture, VolumeId, NodeId) {
    let fixture = Fixture::new().await;
    fixture.serve_alone().await;
    let volume = fixture.volume("pvc-1").await.id;
    let [node, _] = fixture.nodes().await;
    fixture.timing(TimingOverride { detach_ms: Some(1_000), ..TimingOverride::default() }).await;
    fixture.attach(&volume, &node).await.expect("the attachment is possible");
    (fixture, volume, node)
}

async fn detach_for_real(fixture: &Fixture, volume: &VolumeId, node: &NodeId) -> Duration {
    let began = Instant::now();
    fixture.detach(volume, node).await.expect("it can be detached");
    assert!(fixture.volumes().await.iter().all(|v| v.attachments.is_empty()), "reported detached while attached");
    began.elapsed()
}

/// The extra call is sent if a describe lists nothing after an accepted DetachVolume and the proof would take more than
/// half a second. With a limit of 2 s, ControllerUnpublishVolume would miss its target of one second.
#[tokio::test(start_paused = true)]
async fn extra_call_proves_the_end_of_a_young_attachment() {
    let (fixture, volume, node) = attached().await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!((fixture.count(Action::DetachVolume), fixture.accepted(Action::DetachVolume)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn extra_call_is_not_sent_for_a_wait_below_half_a_second() {
    let (fixture, volume, node) = attached().await;
    fixture.pass(13).await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(fixture.count(Action::DetachVolume), 1);
}

/// The extra call needs a bucket that is at least half full.
#[tokio::test(start_paused = true)]
async fn extra_call_needs_a_spare_token() {
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

/// The proof is `in the 'available' state`. After any other refusal or a lost answer the wait continues, without a
/// third call.
#[tokio::test(start_paused = true)]
async fn only_the_available_state_in_a_refusal_proves_the_end() {
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
        fixture.ec2.hide_attachments(14);
        let gate = fixture.sim.hold(Action::DetachVolume);
        let (took, ()) = tokio::join!(detach_for_real(&fixture, &volume, &node), async {
            gate.reached().await;
            gate.release();
            tokio::time::sleep(Duration::from_millis(1)).await;
            fixture.sim.fail_next(Action::DetachVolume, class, false);
        });
        assert!(took >= Duration::from_secs(20), "{class:?}: {took:?}");
        assert_eq!(fixture.count(Action::DetachVolume), 2, "{class:?}: only one extra call");
    }
}
