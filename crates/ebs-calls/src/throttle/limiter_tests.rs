use ebs_ec2::Action;
use ebs_types::Waiters;
use tokio::task::JoinSet;

use super::*;
use crate::throttle::call_context::QueuePlace;

const ACTION: Action = Action::AttachVolume;

fn limiter() -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(None))
}

/// Of a thousand callers at once each gets its token, first come first served.
#[tokio::test(start_paused = true)]
async fn of_a_thousand_at_once_each_gets_its_token_in_the_order_of_coming() {
    let limiter = limiter();
    let mut callers = JoinSet::new();
    let began = Instant::now();
    for n in 0..1_000_u32 {
        let context = CallContext::poll(Duration::from_secs(1_000));
        let limiter = Arc::clone(&limiter);
        callers.spawn(async move {
            limiter.acquire(BucketKey::of(ACTION), &context).await.expect("nobody is lost").report(None);
            (Instant::now(), n)
        });
    }
    let mut served = callers.join_all().await;
    served.sort();
    assert_eq!(served.iter().map(|(_, n)| *n).collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
    let seconds = began.elapsed().as_secs();
    assert!((185..=195).contains(&seconds), "950 tokens at 5/s after the 50 of the full bucket: {seconds} s");
}

/// A caller waits for its token until its own bound ends, and no longer.
#[tokio::test(start_paused = true)]
async fn a_call_waits_until_its_own_deadline_and_its_position_is_free_again() {
    let limiter = limiter();
    for _ in 0..50 {
        limiter
            .acquire(BucketKey::of(ACTION), &CallContext::poll(Duration::ZERO + Duration::from_secs(9)))
            .await
            .unwrap()
            .report(None);
    }
    let began = Instant::now();
    assert!(limiter.acquire(BucketKey::of(ACTION), &CallContext::poll(Duration::from_millis(10))).await.is_none());
    assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
    assert!(limiter.acquire(BucketKey::of(ACTION), &CallContext::poll(Duration::from_secs(1))).await.is_some());
}

/// Whose client left while it waited in the queue, and who comes back, is served before those who came meanwhile; a place is good
/// for one call, so that nobody is always first.
#[tokio::test(start_paused = true)]
async fn who_comes_back_has_kept_its_place_in_the_queue_until_a_call_is_made() {
    let limiter = limiter();
    let key = BucketKey::of(ACTION);
    while limiter.with_bucket(key, |state, now| state.bucket.take(now)).is_ok() {
        tokio::time::advance(Duration::from_millis(20)).await;
    }
    let (waiters, place) = (Waiters::default(), QueuePlace::default());
    let deadline = Instant::now() + Duration::from_secs(100);
    let context = CallContext::mutation(deadline, &waiters, place.clone());
    assert_eq!(context.ticket(|| limiter.ticket()), 0, "it has queued");
    assert!(limiter.acquire(key, &context).await.is_none(), "nobody waits for it any more");
    let _waiter = waiters.join();
    let mut callers = JoinSet::new();
    for (name, context) in [
        ("came meanwhile", CallContext::poll(Duration::from_secs(100))),
        ("came back", CallContext::mutation(deadline, &waiters, place.clone())),
    ] {
        let limiter = Arc::clone(&limiter);
        callers.spawn(async move {
            limiter.acquire(key, &context).await.expect("a token").report(None);
            (Instant::now(), name)
        });
        tokio::task::yield_now().await;
    }
    let mut served = callers.join_all().await;
    served.sort();
    assert_eq!(served.iter().map(|(_, name)| *name).collect::<Vec<_>>(), ["came back", "came meanwhile"]);
    assert!(!place.is_used());
    context.use_place();
    assert!(place.is_used());
}

/// A mutation that nobody wants any more takes no token and is not begun.
#[tokio::test(start_paused = true)]
async fn a_mutation_that_nobody_wants_any_more_takes_no_token() {
    let limiter = limiter();
    let waiters = Waiters::default();
    let deadline = Instant::now() + Duration::from_secs(100);
    assert!(
        limiter
            .acquire(BucketKey::of(ACTION), &CallContext::mutation(deadline, &waiters, QueuePlace::default()))
            .await
            .is_none()
    );
    let waiter = waiters.join();
    assert!(
        limiter
            .acquire(BucketKey::of(ACTION), &CallContext::mutation(deadline, &waiters, QueuePlace::default()))
            .await
            .is_some()
    );
    while limiter.with_bucket(BucketKey::of(ACTION), |state, now| state.bucket.take(now)).is_ok() {
        tokio::time::advance(Duration::from_millis(20)).await;
    }
    limiter.with_bucket(BucketKey::of(ACTION), |state, now| {
        let token = TokenBucket::new(BucketKey::of(ACTION).documented(), now).take(now).unwrap();
        (0..30).for_each(|n| {
            state.bucket.throttled(token, now + Duration::from_millis(n));
        });
    });
    let began = Instant::now();
    let context = CallContext::mutation(deadline, &waiters, QueuePlace::default());
    let (permit, ()) = tokio::join!(limiter.acquire(BucketKey::of(ACTION), &context), async { drop(waiter) });
    assert!(permit.is_none());
    assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
}

/// A throttled caller keeps its place in the queue.
#[tokio::test(start_paused = true)]
async fn a_throttled_call_keeps_its_position() {
    let limiter = limiter();
    let first = CallContext::poll(Duration::from_secs(100));
    let permit = limiter.acquire(BucketKey::of(ACTION), &first).await.unwrap();
    permit.report(Some(ErrorClass::Throttled));
    let later = CallContext::poll(Duration::from_secs(100));
    let order = Mutex::new(Vec::new());
    tokio::join!(
        async {
            limiter.acquire(BucketKey::of(ACTION), &later).await.unwrap().report(None);
            order.lock().unwrap().push("later");
        },
        async {
            limiter.acquire(BucketKey::of(ACTION), &first).await.unwrap().report(None);
            order.lock().unwrap().push("first");
        }
    );
    assert_eq!(*order.lock().unwrap(), ["first", "later"]);
}

/// Throttles are tried again without end: no quota of retries runs out.
#[tokio::test(start_paused = true)]
async fn after_a_thousand_throttles_a_call_is_still_tried_again() {
    let limiter = limiter();
    let context = CallContext::poll(Duration::from_secs(100_000));
    for _ in 0..1_000 {
        limiter.acquire(BucketKey::of(ACTION), &context).await.unwrap().report(Some(ErrorClass::Throttled));
    }
    let began = Instant::now();
    limiter.acquire(BucketKey::of(ACTION), &context).await.unwrap().report(None);
    assert!(began.elapsed() <= Duration::from_secs(11), "{:?}", began.elapsed());
}

/// A token whose call was not sent comes back.
#[tokio::test(start_paused = true)]
async fn a_token_whose_call_was_not_made_comes_back() {
    let limiter = limiter();
    for _ in 0..500 {
        drop(limiter.acquire(BucketKey::of(ACTION), &CallContext::poll(Duration::from_secs(1))).await.unwrap());
        let mut unsent =
            limiter.acquire(BucketKey::of(ACTION), &CallContext::poll(Duration::from_secs(1))).await.unwrap();
        unsent.spend();
        unsent.report(Some(ErrorClass::NotSent));
    }
    assert!(
        limiter
            .with_bucket(BucketKey::of(ACTION), |state, now| state.bucket.take(now + Duration::from_secs(1)))
            .is_ok()
    );
}

/// A throttled action holds up no other.
#[tokio::test(start_paused = true)]
async fn a_throttled_action_holds_up_no_other() {
    let limiter = limiter();
    let context = CallContext::poll(Duration::from_secs(1_000));
    for _ in 0..20 {
        limiter.acquire(BucketKey::of(ACTION), &context).await.unwrap().report(Some(ErrorClass::Throttled));
    }
    let began = Instant::now();
    for other in [
        Action::CopyVolumes,
        Action::CreateSnapshot,
        Action::CreateVolume,
        Action::DeleteSnapshot,
        Action::DeleteVolume,
        Action::DetachVolume,
        Action::EnableFastSnapshotRestores,
        Action::ModifyVolume,
        Action::DescribeVolumesModifications,
    ] {
        limiter.acquire(BucketKey::of(other), &context).await.unwrap().report(None);
        assert_eq!(began.elapsed(), Duration::ZERO, "{other}");
    }
    limiter.acquire(BucketKey::of(ACTION), &context).await.unwrap().report(None);
    assert!(began.elapsed() > Duration::ZERO, "the action itself is held back");
}
