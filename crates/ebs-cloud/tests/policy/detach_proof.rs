//! How the driver proves a detachment while describe calls return stale results.

use std::time::Duration;

use ebs_ec2::{Action, Attachments, ConnectionId, DetachRequest, ErrorClass, NodeId, VolumeId, Waiters};
use ebs_sim::engine::TimingOverride;
use tokio::time::Instant;

use crate::fixture::Fixture;

const FOURTEEN: Duration = Duration::from_secs(14);

async fn with_detach_seconds(seconds: u64) -> Fixture {
    let fixture = Fixture::new().await;
    fixture.timing(TimingOverride { detach_ms: Some(seconds * 1000), ..TimingOverride::default() }).await;
    fixture
}

async fn volume_and_node(fixture: &Fixture) -> (VolumeId, NodeId) {
    let volume = fixture.volume("pvc-1").await.id;
    let [node, _] = fixture.nodes().await;
    (volume, node)
}

async fn is_attached(fixture: &Fixture) -> bool {
    fixture.volumes().await.iter().any(|v| !v.attachments.is_empty())
}

async fn detach_for_real(fixture: &Fixture, volume: &VolumeId, node: &NodeId) -> Duration {
    let began = Instant::now();
    fixture.detach(volume, node).await.expect("it can be detached");
    assert!(!is_attached(fixture).await, "reported detached while attached, after {:?}", began.elapsed());
    began.elapsed()
}

#[tokio::test(start_paused = true)]
async fn first_empty_describe_proves_detachment_of_an_old_volume() {
    let fixture = with_detach_seconds(2).await;
    fixture.serve_alone().await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(16).await;
    fixture.sim.clear_calls();
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(8), "{took:?}");
    let actions = fixture.actions();
    assert_eq!(actions[0], Action::DetachVolume, "no describe is before it");
    assert_eq!(fixture.count(Action::DetachVolume), 1);
    assert!(actions[1..].iter().all(|a| *a == Action::DescribeVolumes), "{actions:?}");
}

/// The attachment was made by this process, by a process that has ended, or by another process.
#[tokio::test(start_paused = true)]
async fn stale_empty_describe_does_not_prove_detachment() {
    for who in ["this process", "one that ended", "another one"] {
        let mut fixture = with_detach_seconds(20).await;
        let (volume, node) = volume_and_node(&fixture).await;
        match who {
            "another one" => {
                fixture.twin().attachments.attach(&volume, &node, &fixture.waiters).await.map(drop).unwrap()
            }
            _ => fixture.attach(&volume, &node).await.map(drop).unwrap(),
        }
        if who == "one that ended" {
            fixture.restart();
        }
        fixture.ec2.hide_attachments(14);
        let took = detach_for_real(&fixture, &volume, &node).await;
        assert!(took >= Duration::from_secs(20), "{who}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn describe_showing_detaching_does_not_prove_the_next_fresh() {
    let fixture = with_detach_seconds(12).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.attach(&volume, &node).await.unwrap();
    let (until, mut looks) = (Instant::now() + FOURTEEN, 0);
    fixture.ec2.override_volumes(move |volumes| {
        looks += 1;
        if looks > 1 && Instant::now() < until {
            volumes.iter_mut().for_each(|v| v.attachments.clear());
        }
    });
    detach_for_real(&fixture, &volume, &node).await;
}

#[tokio::test(start_paused = true)]
async fn age_of_an_earlier_attachment_proves_nothing_about_a_new_one() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(40).await;
    let twin = fixture.twin();
    twin.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    twin.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.timing(TimingOverride { detach_ms: Some(20_000), ..TimingOverride::default() }).await;
    fixture.ec2.hide_attachments(14);
    detach_for_real(&fixture, &volume, &node).await;
}

/// The attach time shows whether a describe can predate the attachment.
#[tokio::test(start_paused = true)]
async fn attach_time_proves_detachment_after_a_restart() {
    for (age, calls) in [(400, 1), (200, 1), (17, 1), (3, 2)] {
        let mut fixture = with_detach_seconds(1).await;
        let (volume, node) = volume_and_node(&fixture).await;
        fixture.restart();
        fixture.serve_alone().await;
        fixture.twin().attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
        fixture.pass(age).await;
        let took = detach_for_real(&fixture, &volume, &node).await;
        assert!(took < Duration::from_secs(8), "{age} s old: {took:?}");
        assert_eq!(fixture.count(Action::DetachVolume), calls, "{age} s old");
    }
}

#[tokio::test(start_paused = true)]
async fn detach_of_an_unattached_volume_succeeds_at_once() {
    let fixture = with_detach_seconds(1).await;
    fixture.serve_alone().await;
    let (volume, node) = volume_and_node(&fixture).await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(1), "IncorrectState, 'available': {took:?}");
    for class in [ErrorClass::AttachmentNotFound, ErrorClass::VolumeNotFound, ErrorClass::InstanceNotFound] {
        fixture.sim.fail_next(Action::DetachVolume, class, false);
        let took = detach_for_real(&fixture, &volume, &node).await;
        assert!(took < Duration::from_secs(1), "{class:?}: {took:?}");
    }
}

/// While the other client's detach runs, stale DescribeVolumes replies list no attachment.
#[tokio::test(start_paused = true)]
async fn detach_by_another_client_is_awaited() {
    let fixture = with_detach_seconds(20).await;
    let (volume, node) = volume_and_node(&fixture).await;
    let twin = fixture.twin();
    twin.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    let request = DetachRequest { volume: volume.clone(), instance: node.instance().clone() };
    fixture.sim.detach_volume(&request).await.expect("it is attached");
    fixture.ec2.hide_attachments(14);
    detach_for_real(&fixture, &volume, &node).await;
}

#[tokio::test(start_paused = true)]
async fn detach_continues_an_abandoned_one_without_another_call() {
    let fixture = with_detach_seconds(30).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.abandon_detach(&volume, &node).await;
    fixture.ec2.hide_attachments(14);
    detach_for_real(&fixture, &volume, &node).await;
    assert_eq!(fixture.accepted(Action::DetachVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn attachment_after_an_abandoned_detach_is_detached_again() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.abandon_detach(&volume, &node).await;
    fixture.pass(5).await;
    fixture.twin().attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.ec2.hide_attachments(14);
    detach_for_real(&fixture, &volume, &node).await;
    assert_eq!(fixture.count(Action::DetachVolume), 2);
}

#[tokio::test(start_paused = true)]
async fn detach_also_removes_a_late_attach_with_a_lost_reply() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.sim.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, false);
    fixture.abandon_attach(&volume, &node).await;
    // EC2 carries out the unanswered AttachVolume late.
    detach_while_another_attaches(&fixture, &volume, &node, fixture.pass(10)).await;
}

/// Detaches the volume. EC2 carries out another process's AttachVolume once `after` is done. The volume must end up
/// detached.
async fn detach_while_another_attaches(
    fixture: &Fixture,
    volume: &VolumeId,
    node: &NodeId,
    after: impl Future<Output = ()>,
) {
    let late = async {
        after.await;
        fixture.twin().attachments.attach(volume, node, &fixture.waiters).await.map(drop)
    };
    let (detached, late) = tokio::join!(fixture.detach(volume, node), late);
    late.expect("the other process attaches");
    detached.expect("it can be detached");
    assert!(!is_attached(fixture).await);
}

#[tokio::test(start_paused = true)]
async fn new_process_waits_for_a_late_attach_of_the_previous_one() {
    let mut fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.restart();
    // EC2 carries out the last call of the previous process only now.
    detach_while_another_attaches(&fixture, &volume, &node, fixture.pass(10)).await;
}

#[tokio::test(start_paused = true)]
async fn detach_from_a_terminated_instance_succeeds() {
    let fixture = with_detach_seconds(1).await;
    let volume = fixture.volume("pvc-1").await.id;
    let node = fixture.neighbour().await;
    fixture.attach(&volume, &node).await.unwrap();
    fixture.pass(20).await;
    fixture.terminate(&node).await;
    fixture.pass(300).await;
    detach_for_real(&fixture, &volume, &node).await;
    let error = fixture.attach(&volume, &node).await.unwrap_err();
    assert!(error.cause.is_some() || error.is_not_found(), "{error:?}");
}

/// "Not found" is a proof only 15 s after the attachment is known to have existed.
#[tokio::test(start_paused = true)]
async fn stale_refusal_does_not_prove_detachment() {
    for class in [ErrorClass::AttachmentNotFound, ErrorClass::VolumeNotFound, ErrorClass::InstanceNotFound] {
        let fixture = with_detach_seconds(1).await;
        let (volume, node) = volume_and_node(&fixture).await;
        fixture.attach(&volume, &node).await.unwrap();
        fixture.pass(1).await;
        // EC2's refusal and its describe responses are both stale: they show the state before the attachment.
        fixture.sim.fail_next(Action::DetachVolume, class, false);
        fixture.ec2.hide_attachments(13);
        let told = fixture.detach(&volume, &node).await;
        // The stale refusal does not prove the detachment. The driver sends DetachVolume again once a describe shows
        // the attachment.
        assert!(told.is_ok() && !is_attached(&fixture).await, "{class:?}: {told:?}");
        assert_eq!(fixture.accepted(Action::DetachVolume), 1, "{class:?}");
    }
}

/// EC2 may carry out the previous leader's AttachVolume late. The driver waits for the late call only once, across all
/// attempts.
#[tokio::test(start_paused = true)]
async fn not_attached_error_is_proof_only_after_15_s_as_leader() {
    let fixture = with_detach_seconds(1).await;
    fixture.serve_alone().await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.pass(600).await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(1), "no other process has attached it: {took:?}");
    fixture.pass(600).await;
    // Another process was the leader in between, and EC2 carries out that process's last call only now.
    fixture.connect(ConnectionId::unique());
    detach_while_another_attaches(&fixture, &volume, &node, fixture.pass(10)).await;
}

#[tokio::test(start_paused = true)]
async fn late_attach_of_the_previous_leader_is_detached_too() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.twin().attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(60).await;
    fixture.connect(ConnectionId::unique());
    let ended = async {
        tokio::time::sleep(Duration::from_secs(8)).await;
        assert!(!is_attached(&fixture).await, "it has ended by now");
    };
    detach_while_another_attaches(&fixture, &volume, &node, ended).await;
}

#[tokio::test(start_paused = true)]
async fn new_leader_waits_once_for_calls_of_the_previous_one() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    let connection = ConnectionId::unique();
    fixture.connect(connection);
    let began = Instant::now();
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let (given_up, ()) = tokio::join!(fixture.cloud.attachments.detach(&volume, &node, &waiters), async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        drop(waiter);
    });
    given_up.unwrap_err();
    fixture.pass(300).await;
    fixture.connect(connection);
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(1), "{took:?}, {:?} after the first attempt", began.elapsed());
}

/// Returns a volume that was attached to the machine's own instance a moment ago. To detach it, the driver may send an
/// extra DetachVolume instead of waiting longer.
async fn attached() -> (Fixture, VolumeId, NodeId) {
    let fixture = with_detach_seconds(1).await;
    fixture.serve_alone().await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.attach(&volume, &node).await.expect("the attachment is possible");
    (fixture, volume, node)
}

/// The driver sends the extra DetachVolume if a describe lists nothing after an accepted DetachVolume and the proof
/// would otherwise take more than half a second. With a threshold of 2 s instead, ControllerUnpublishVolume would miss
/// its target of one second.
#[tokio::test(start_paused = true)]
async fn extra_detach_call_proves_detachment_of_a_young_attachment() {
    let (fixture, volume, node) = attached().await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(3), "{took:?}");
    assert_eq!((fixture.count(Action::DetachVolume), fixture.accepted(Action::DetachVolume)), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn extra_detach_call_is_not_sent_for_a_wait_below_500_ms() {
    let (fixture, volume, node) = attached().await;
    fixture.pass(13).await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(4), "{took:?}");
    assert_eq!(fixture.count(Action::DetachVolume), 1);
}

/// The driver sends the extra call only if the token bucket of DetachVolume is at least half full.
#[tokio::test(start_paused = true)]
async fn extra_detach_call_is_sent_only_if_bucket_is_half_full() {
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

#[tokio::test(start_paused = true)]
async fn only_state_available_in_a_refusal_proves_detachment() {
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
