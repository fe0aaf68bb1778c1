//! Clients that wait for a few seconds only and come again, each time later: whatever they ask for is done in the end.

use ebs_ec2::ErrorClass;
use ebs_sim::engine::TimingOverride;
use tokio::time::{Instant, sleep, timeout};

use super::*;

/// How long the official sidecars wait for an answer, and less.
const DEADLINES: [u64; 5] = [1, 3, 8, 10, 15];
/// More calls mean that each begins anew what the one before had begun.
const MOST_CALLS: u32 = 7;

impl World {
    /// The process ends and another one begins over the same EC2.
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

/// Calls as a sidecar does: gives each call up after that many seconds and waits twice as long before the next.
async fn insist<T>(what: &str, seconds: u64, mut call: impl AsyncFnMut() -> Result<T, Refused>) -> T {
    let mut pause = Duration::from_secs(1);
    for _ in 0..MOST_CALLS {
        match timeout(Duration::from_secs(seconds), call()).await {
            Ok(Ok(done)) => return done,
            Ok(Err(refused)) => assert!(["Aborted", "Unavailable"].contains(&refused.code.as_str()), "{refused:?}"),
            Err(_given_up) => {}
        }
        sleep(pause).await;
        pause *= 2;
    }
    panic!("{what}: not done by {MOST_CALLS} calls of {seconds} s");
}

/// What a former process attached is published to clients with deadlines from 1 s up that come again, each time later.
#[tokio::test(start_paused = true)]
async fn what_a_former_process_attached_is_published_whatever_the_clients_deadline() {
    for seconds in DEADLINES {
        for age in [0, 5, 20] {
            let mut world = World::start().await;
            let volume = world.volume("pvc-1").await;
            let first = world.publish(&volume, world.here.as_str()).await.expect("attached");
            sleep(Duration::from_secs(age)).await;
            world.restart();
            let what = format!("publish, attached for {age} s");
            let again = insist(&what, seconds, async || world.publish(&volume, world.here.as_str()).await).await;
            assert_eq!(again, first);
        }
    }
}

/// What was attached a moment ago, by this process or a former one, is unpublished for such clients.
#[tokio::test(start_paused = true)]
async fn what_was_attached_a_moment_ago_is_unpublished_whatever_the_clients_deadline() {
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
            insist(&what, seconds, async || world.unpublish(&volume, world.here.as_str()).await).await;
            assert!(!world.is_attached().await);
        }
    }
}

/// An attach or a detach whose answer was lost is made for such clients, and an attachment that sticks is made anew.
#[tokio::test(start_paused = true)]
async fn an_attachment_whose_answer_was_lost_is_made_whatever_the_clients_deadline() {
    for seconds in DEADLINES {
        for done in [true, false] {
            let world = World::start().await;
            let volume = world.volume("pvc-1").await;
            world.ec2.fail_next(Action::AttachVolume, ErrorClass::Ambiguous, done);
            insist("publish", seconds, async || world.publish(&volume, world.here.as_str()).await).await;
            assert!(world.is_attached().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_detach_whose_answer_was_lost_is_made_whatever_the_clients_deadline() {
    for seconds in DEADLINES {
        for done in [true, false] {
            let world = World::start().await;
            let volume = world.volume("pvc-1").await;
            world.publish(&volume, world.here.as_str()).await.expect("attached");
            sleep(Duration::from_secs(40)).await;
            world.ec2.fail_next(Action::DetachVolume, ErrorClass::Ambiguous, done);
            insist("unpublish", seconds, async || match world.unpublish(&volume, world.here.as_str()).await {
                Err(told) if told.code == "FailedPrecondition" => panic!("{told:?}"),
                answer => answer,
            })
            .await;
            assert!(!world.is_attached().await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_attachment_that_sticks_is_made_anew_whatever_the_clients_deadline() {
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
            // The next one comes at once.
            world.timing(TimingOverride { attach_ms: Some(0), ..TimingOverride::default() }).await;
            insist("publish", seconds, async || world.publish(&volume, world.here.as_str()).await).await;
            assert!(world.is_attached().await);
        }
    }
}

/// Unpublish takes over at once from a Publish that only looks, and Publish from such an Unpublish.
#[tokio::test(start_paused = true)]
async fn unpublish_takes_over_at_once_from_a_publish_that_only_looks() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
    let node = world.here.as_str();
    assert!(timeout(Duration::from_secs(5), world.publish(&volume, node)).await.is_err());
    sleep(Duration::from_secs(30)).await;
    assert_eq!(world.operations.running().len(), 1, "it goes on looking");
    let began = Instant::now();
    let gate = world.ec2.hold(Action::DetachVolume);
    leave_when(world.unpublish(&volume, node), gate.reached()).await;
    assert!(began.elapsed() < Duration::from_millis(10), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn publish_takes_over_at_once_from_an_unpublish_that_only_looks() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.publish(&volume, node).await.expect("attached");
    world.timing(TimingOverride { detach_ms: Some(50_000), ..TimingOverride::default() }).await;
    assert!(timeout(Duration::from_secs(5), world.unpublish(&volume, node)).await.is_err());
    sleep(Duration::from_secs(10)).await;
    assert_eq!(world.operations.running().len(), 1, "it goes on looking");
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

/// A Publish that waits for its turn and has lost its client attaches nothing.
#[tokio::test(start_paused = true)]
async fn a_publish_that_waits_for_its_turn_attaches_nothing_when_nobody_waits_any_more() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    let node = world.here.as_str();
    world.publish(&volume, node).await.expect("attached");
    sleep(Duration::from_secs(20)).await;
    world.timing(TimingOverride { detach_ms: Some(30_000), ..TimingOverride::default() }).await;
    assert!(timeout(Duration::from_secs(1), world.unpublish(&volume, node)).await.is_err());
    // Refused while the volume leaves; then it waits for that, and its client goes.
    assert!(timeout(Duration::from_secs(5), world.publish(&volume, node)).await.is_err());
    world.ec2.clear_calls();
    sleep(Duration::from_secs(120)).await;
    assert!(world.operations.running().is_empty());
    assert_eq!((world.mutations(), world.is_attached().await), (Vec::new(), false));
}

/// A shutdown does not wait for an operation that only looks.
#[tokio::test(start_paused = true)]
async fn a_shutdown_does_not_wait_for_an_operation_that_only_looks() {
    let world = World::start().await;
    let volume = world.volume("pvc-1").await;
    world.timing(TimingOverride { attach_ms: Some(100_000_000), ..TimingOverride::default() }).await;
    assert!(timeout(Duration::from_secs(5), world.publish(&volume, world.here.as_str())).await.is_err());
    sleep(Duration::from_secs(5)).await;
    assert_eq!(world.operations.running().len(), 1, "it goes on looking");
    let began = Instant::now();
    assert!(world.operations.drain(Duration::from_secs(20)).await.is_empty());
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
}
