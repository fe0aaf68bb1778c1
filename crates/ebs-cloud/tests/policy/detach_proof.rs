//! What proves the end of an attachment while describes lag behind.

use std::time::Duration;

use ebs_ec2::{Action, Attachments, DetachRequest, ErrorClass};
use ebs_sim::engine::TimingOverride;
use ebs_types::{ConnectionId, NodeId, VolumeId, Waiters};
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

/// Detaches, and sees to it that nothing was attached when that was reported.
async fn detach_for_real(fixture: &Fixture, volume: &VolumeId, node: &NodeId) -> Duration {
    let began = Instant::now();
    fixture.cloud.attachments.detach(volume, node, &fixture.waiters).await.expect("it can be detached");
    assert!(!is_attached(fixture).await, "reported detached while attached, after {:?}", began.elapsed());
    began.elapsed()
}

/// DetachVolume is called without a look before it; an old attachment is gone at the first look that lists nothing.
#[tokio::test(start_paused = true)]
async fn an_old_attachment_is_gone_at_the_first_describe_that_lists_nothing_and_costs_two_calls() {
    let fixture = with_detach_seconds(2).await;
    fixture.serve_alone().await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(16).await;
    fixture.sim.clear_calls();
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(8), "{took:?}");
    let actions = fixture.actions();
    assert_eq!(actions[0], Action::DetachVolume, "nothing is looked at before");
    assert_eq!(fixture.count(Action::DetachVolume), 1);
    assert!(actions[1..].iter().all(|a| *a == Action::DescribeVolumes), "{actions:?}");
}

/// An attachment of moments ago is not gone because looks do not list it yet, whoever made it.
#[tokio::test(start_paused = true)]
async fn an_attachment_of_moments_ago_is_not_gone_because_describes_do_not_list_it_yet() {
    for who in ["this process", "one that ended", "another one"] {
        let mut fixture = with_detach_seconds(20).await;
        let (volume, node) = volume_and_node(&fixture).await;
        match who {
            "another one" => {
                fixture.twin().attachments.attach(&volume, &node, &fixture.waiters).await.map(drop).unwrap()
            }
            _ => fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.map(drop).unwrap(),
        }
        if who == "one that ended" {
            fixture.restart();
        }
        fixture.ec2.hide_attachments(FOURTEEN);
        let took = detach_for_real(&fixture, &volume, &node).await;
        assert!(took >= Duration::from_secs(20), "{who}: {took:?}");
    }
}

/// Having seen `detaching` proves nothing about the next look.
#[tokio::test(start_paused = true)]
async fn having_seen_it_detaching_proves_nothing_about_the_next_describe() {
    let fixture = with_detach_seconds(12).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    let (until, mut looks) = (Instant::now() + FOURTEEN, 0);
    fixture.ec2.override_volumes(move |volumes| {
        looks += 1;
        if looks > 1 && Instant::now() < until {
            volumes.iter_mut().for_each(|v| v.attachments.clear());
        }
    });
    detach_for_real(&fixture, &volume, &node).await;
}

/// The memory of an earlier attachment proves nothing about one that another process made.
#[tokio::test(start_paused = true)]
async fn the_memory_of_an_earlier_attachment_proves_nothing_about_one_that_another_process_made() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(40).await;
    let twin = fixture.twin();
    twin.attachments.detach(&volume, &node, &fixture.waiters).await.unwrap();
    twin.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.timing(TimingOverride { detach_ms: Some(20_000), ..TimingOverride::default() }).await;
    fixture.ec2.hide_attachments(FOURTEEN);
    detach_for_real(&fixture, &volume, &node).await;
}

/// After a restart the attach time tells whether looks can show the time before the attachment.
#[tokio::test(start_paused = true)]
async fn after_a_restart_the_attach_time_tells_whether_describes_can_show_the_time_before() {
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

/// What EC2 calls available, not attached or missing, and this process did not attach a moment ago, is detached at the
/// first look that agrees.
#[tokio::test(start_paused = true)]
async fn what_ec2_calls_available_or_not_attached_is_detached_at_the_first_describe() {
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

/// What somebody else is detaching is waited for, whatever looks show.
#[tokio::test(start_paused = true)]
async fn what_somebody_else_is_detaching_is_waited_for_whatever_describes_show() {
    let fixture = with_detach_seconds(20).await;
    let (volume, node) = volume_and_node(&fixture).await;
    let twin = fixture.twin();
    twin.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    let request = DetachRequest { volume: volume.clone(), instance: node.instance().clone() };
    fixture.sim.detach_volume(&request).await.expect("it is attached");
    fixture.ec2.hide_attachments(FOURTEEN);
    detach_for_real(&fixture, &volume, &node).await;
}

/// A detach that was given up is waited for by the next and not begun anew.
#[tokio::test(start_paused = true)]
async fn a_detach_that_was_given_up_is_waited_for_by_the_next_and_not_begun_anew() {
    let fixture = with_detach_seconds(30).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::DetachVolume);
    let (given_up, _successor) = tokio::join!(fixture.cloud.attachments.detach(&volume, &node, &waiters), async {
        gate.reached().await;
        drop(waiter);
        let successor = waiters.supersede();
        gate.release();
        successor
    });
    given_up.unwrap_err();
    fixture.ec2.hide_attachments(FOURTEEN);
    detach_for_real(&fixture, &volume, &node).await;
    assert_eq!(fixture.accepted(Action::DetachVolume), 1);
}

/// An attachment that came back after a detach that was given up is detached again.
#[tokio::test(start_paused = true)]
async fn an_attachment_that_comes_back_after_a_given_up_detach_is_detached_again() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::DetachVolume);
    let (given_up, _successor) = tokio::join!(fixture.cloud.attachments.detach(&volume, &node, &waiters), async {
        gate.reached().await;
        drop(waiter);
        let successor = waiters.supersede();
        gate.release();
        successor
    });
    given_up.unwrap_err();
    fixture.pass(5).await;
    fixture.twin().attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.ec2.hide_attachments(FOURTEEN);
    detach_for_real(&fixture, &volume, &node).await;
    assert_eq!(fixture.count(Action::DetachVolume), 2);
}

/// An AttachVolume whose answer was lost cannot come after the detach.
#[tokio::test(start_paused = true)]
async fn an_attach_whose_answer_was_lost_cannot_come_after_the_detach() {
    let fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    let waiters = Waiters::default();
    let waiter = waiters.join();
    let gate = fixture.sim.hold(Action::AttachVolume);
    fixture.sim.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, false);
    let (lost, _successor) = tokio::join!(fixture.cloud.attachments.attach(&volume, &node, &waiters), async {
        gate.reached().await;
        drop(waiter);
        let successor = waiters.supersede();
        gate.release();
        successor
    });
    lost.unwrap_err();
    // EC2 carries the lost call out late.
    detach_while_another_attaches(&fixture, &volume, &node, fixture.pass(10)).await;
}

/// Detaches, while the AttachVolume of another process is carried out after that time; nothing is attached at the end.
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
    let (detached, late) = tokio::join!(fixture.cloud.attachments.detach(volume, node, &fixture.waiters), late);
    late.expect("the other process attaches");
    detached.expect("it can be detached");
    assert!(!is_attached(fixture).await);
}

/// A process that has just started waits for an attach of the one before it, before "not attached" counts.
#[tokio::test(start_paused = true)]
async fn a_new_process_waits_for_an_attach_that_the_one_before_it_may_have_on_its_way() {
    let mut fixture = with_detach_seconds(1).await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.restart();
    // What the process before had sent arrives only now.
    detach_while_another_attaches(&fixture, &volume, &node, fixture.pass(10)).await;
}

/// A terminated instance that EC2 still describes follows the normal path.
#[tokio::test(start_paused = true)]
async fn a_terminated_instance_has_nothing_attached() {
    let fixture = with_detach_seconds(1).await;
    let volume = fixture.volume("pvc-1").await.id;
    let node = fixture.neighbour().await;
    fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
    fixture.pass(20).await;
    fixture.terminate(&node).await;
    detach_for_real(&fixture, &volume, &node).await;
    let error = fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap_err();
    assert!(error.cause.is_some() || error.is_not_found(), "{error:?}");
}

/// A refusal that says "not found" is no better than a look where an attachment is known: it proves an end 15 s after
/// the attachment is known to have existed.
#[tokio::test(start_paused = true)]
async fn a_refusal_is_no_better_than_a_describe_where_an_attachment_is_known() {
    for class in [ErrorClass::AttachmentNotFound, ErrorClass::VolumeNotFound, ErrorClass::InstanceNotFound] {
        let fixture = with_detach_seconds(1).await;
        let (volume, node) = volume_and_node(&fixture).await;
        fixture.cloud.attachments.attach(&volume, &node, &fixture.waiters).await.unwrap();
        fixture.pass(1).await;
        // All of EC2 lags: the call and the describes show the time before the attachment.
        fixture.sim.fail_next(Action::DetachVolume, class, false);
        fixture.ec2.hide_attachments(Duration::from_secs(13));
        let told = fixture.cloud.attachments.detach(&volume, &node, &fixture.waiters).await;
        // It was not believed, and once a describe shows the attachment its end is asked for again.
        assert!(told.is_ok() && !is_attached(&fixture).await, "{class:?}: {told:?}");
        assert_eq!(fixture.accepted(Action::DetachVolume), 1, "{class:?}");
    }
}

/// The end of an attachment that this process did not make is believed only once the attacher has asked it alone for 15
/// s, since an AttachVolume of the process before may come late; that is waited for once, over all attempts.
#[tokio::test(start_paused = true)]
async fn not_attached_is_believed_at_once_only_by_a_process_that_alone_was_asked_for_fifteen_seconds() {
    let fixture = with_detach_seconds(1).await;
    fixture.serve_alone().await;
    let (volume, node) = volume_and_node(&fixture).await;
    fixture.pass(600).await;
    let took = detach_for_real(&fixture, &volume, &node).await;
    assert!(took < Duration::from_secs(1), "nobody else has attached it: {took:?}");
    fixture.pass(600).await;
    // Another process has led meanwhile, and what it had sent last arrives only now.
    fixture.connect(ConnectionId::unique());
    detach_while_another_attaches(&fixture, &volume, &node, fixture.pass(10)).await;
}

#[tokio::test(start_paused = true)]
async fn an_attach_of_the_former_process_that_comes_after_the_end_is_ended_too() {
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
async fn a_process_that_takes_over_waits_once_for_what_another_may_have_sent_not_with_each_attempt() {
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
