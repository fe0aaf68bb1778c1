//! Clients that wait only a few seconds and call again, with longer pauses. All their requests must succeed in the end.

use ebs_ec2::ErrorClass;
use ebs_sim::engine::TimingOverride;
use tokio::time::{Instant, sleep, timeout};

use super::short_deadlines::insist;
use super::*;

/// The timeouts of the official sidecars in seconds, and shorter ones.
const DEADLINES: [u64; 5] = [1, 3, 8, 10, 15];
impl World {
    /// Replaces the driver process by a new one over the same EC2.
    fn restart(&mut self) {
        let now = self.ec2.engine().now();
        (self.service, self.operations) = driver_over(&self.ec2, Some(now));
    }

    async fn timing(&self, timing: TimingOverride) {
        self.ec2.engine().set_timing(timing).await;
    }

    async fn is_attached(&self) -> bool {
        self.volumes().await.iter().any(|v| !v.attachments.is_empty())
    }
}

/// A previous process made the attachment. The clients have deadlines from 1 s.
#[tokio::test(start_paused = true)]
async fn previous_attachment_is_published_for_any_client_deadline() {
    for seconds in DEADLINES {
        for age in [0, 5, 20] {
            let mut world = World::start().await;
            let volume = world.volume("pvc-1").await;
            let first = world.publish(&volume, world.here.as_str()).await.expect("attached");
            sleep(Duration::from_secs(age)).await;
            world.restart();
            let what = format!("publish, attached for {age} s");
            let again = insist(seconds, async || world.publish(&volume, world.here.as_str()).await).await.expect(&what);
            assert_eq!(again, first);
        }
    }
}

/// The volume was attached by this process or by a previous one.
#[tokio::test(start_paused = true)]
async fn fresh_attachment_is_unpublished_for_any_client_deadline() {
    for seconds in DEADLINES {
        for (restarted, age) in [(false, 0), (false, 3), (true, 0), (true, 3), (true, 200)] {
            let mut world = World::start().await;
            let volume = world.volume("pvc-1").await;
            world.publish(&volume, world.here.as_str()).await.expect("attached");
            sleep(Duration::from_secs(age)).await;
            if restarted {
                world.restart();
            }
            let what = format!("unpublish, attached for {age} s");
            insist(seconds, async || world.unpublish(&volume, world.here.as_str()).await).await.expect(&what);
            assert!(!world.is_attached().await);
        }
    }
}

/// The reply to the AttachVolume call is lost.
#[tokio::test(start_paused = true)]
async fn attach_with_lost_reply_succeeds_for_any_client_deadline() {
    for seconds in DEADLINES {
        for done in [true, false] {
            let world = World::start().await;
            let volume = world.volume("pvc-1").await;
            world.ec2.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, done);
            insist(seconds, async || world.publish(&volume, world.here.as_str()).await).await.expect("publish");
            assert!(world.is_attached().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn detach_with_lost_reply_succeeds_for_any_client_deadline() {
    for seconds in DEADLINES {
        for done in [true, false] {
            let world = World::start().await;
            let volume = world.volume("pvc-1").await;
            world.publish(&volume, world.here.as_str()).await.expect("attached");
            sleep(Duration::from_secs(40)).await;
            world.ec2.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, done);
            insist(seconds, async || world.unpublish(&volume, world.here.as_str()).await).await.expect("detached");
            assert!(!world.is_attached().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn stuck_attachment_is_replaced_for_any_client_deadline() {
    for seconds in [10, 15] {
        for restarted in [false, true] {
            let mut world = World::start().await;
            let volume = world.volume("pvc-1").await;
            world.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
            let call = async || world.publish(&volume, world.here.as_str()).await;
            assert!(timeout(Duration::from_secs(seconds), call()).await.is_err());
            sleep(Duration::from_secs(100)).await;
            if restarted {
                world.restart();
            }
            // The next one is attached at once.
            world.timing(TimingOverride { attach_ms: Some(0), ..TimingOverride::default() }).await;
            insist(seconds, async || world.publish(&volume, world.here.as_str()).await).await.expect("publish");
            assert!(world.is_attached().await);
        }
    }
}

/// The Publish has lost its client and only describes.
#[tokio::test(start_paused = true)]
async fn unpublish_takes_over_at_once_from_an_abandoned_publish() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
    let node = world.here.as_str();
    assert!(timeout(Duration::from_secs(5), world.publish(&volume, node)).await.is_err());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.operations.running().len(), 1, "it still describes");
    let began = Instant::now();
    let gate = world.ec2.hold(Action::DetachVolume);
    leave_when(world.unpublish(&volume, node), gate.reached()).await;
    assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn publish_takes_over_at_once_from_an_abandoned_unpublish() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.publish(&volume, node).await.expect("attached");
    world.timing(TimingOverride { detach_ms: Some(50_000), ..TimingOverride::default() }).await;
    assert!(timeout(Duration::from_secs(5), world.unpublish(&volume, node)).await.is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.operations.running().len(), 1, "it still describes");
    world.timing(TimingOverride { detach_ms: Some(0), ..TimingOverride::default() }).await;
    let gate = world.ec2.hold(Action::AttachVolume);
    let began = Instant::now();
    let (published, ()) = within("the publish", async {
        tokio::join!(world.publish(&volume, node), async {
            gate.reached().await;
            assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
            gate.release();
        })
    })
    .await;
    published.expect("attached, after the detach");
    assert!(world.is_attached().await);
}

#[tokio::test(start_paused = true)]
async fn abandoned_publish_in_the_queue_attaches_nothing() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.publish(&volume, node).await.expect("attached");
    sleep(Duration::from_secs(20)).await;
    world.timing(TimingOverride { detach_ms: Some(30_000), ..TimingOverride::default() }).await;
    assert!(timeout(Duration::from_secs(1), world.unpublish(&volume, node)).await.is_err());
    // The first call is refused while the volume detaches. The next waits for the detach, and its client disconnects.
    assert!(timeout(Duration::from_secs(5), world.publish(&volume, node)).await.is_err());
    world.ec2.clear_calls();
    sleep(Duration::from_secs(120)).await;
    assert!(world.operations.running().is_empty());
    assert_eq!((world.mutations(), world.is_attached().await), (Vec::new(), false));
}

#[tokio::test(start_paused = true)]
async fn shutdown_does_not_wait_for_an_operation_that_describes() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
    assert!(timeout(Duration::from_secs(5), world.publish(&volume, world.here.as_str())).await.is_err());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.operations.running().len(), 1, "it still describes");
    let began = Instant::now();
    assert!(world.operations.drain(Duration::from_secs(20)).await.is_empty());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
