use ebs_ec2::{Action, Waiters};
use tokio::task::JoinSet;

use super::super::call_context::QueuePlace;
use super::*;

const KEY: BucketKey = BucketKey::of(Action::AttachVolume);

fn limiter() -> Arc<RateLimiter> {
    Arc::new(RateLimiter::new(None))
}

#[tokio::test(start_paused = true)]
async fn thousand_callers_get_their_tokens_in_order() {
    let limiter = limiter();
    let mut callers = JoinSet::new();
    let began = Instant::now();
    for n in 0..1_000_u32 {
        let context = CallContext::poll(Duration::from_secs(1_000));
        let limiter = Arc::clone(&limiter);
        callers.spawn(async move {
            limiter.acquire(KEY, &context).await.expect("each caller gets a token").report(None);
            (Instant::now(), n)
        });
    }
    let mut served = callers.join_all().await;
    served.sort();
    assert_eq!(served.iter().map(|(_, n)| *n).collect::<Vec<_>>(), (0..1_000).collect::<Vec<_>>());
    let seconds = began.elapsed().as_secs();
    assert!((185..=195).contains(&seconds), "950 tokens at 5/s after the 50 of the full bucket: {seconds} s");
}

#[tokio::test(start_paused = true)]
async fn call_gives_up_at_its_deadline_and_frees_its_position() {
    let limiter = limiter();
    for _ in 0..50 {
        limiter.acquire(KEY, &CallContext::poll(Duration::from_secs(9))).await.unwrap().report(None);
    }
    let began = Instant::now();
    assert!(limiter.acquire(KEY, &CallContext::poll(Duration::from_millis(10))).await.is_none());
    assert!(began.elapsed() < Duration::from_millis(50), "{:?}", began.elapsed());
    assert!(limiter.acquire(KEY, &CallContext::poll(Duration::from_secs(1))).await.is_some());
}

/// The client of a queued operation leaves and returns. A queue place is valid for one call only; otherwise the same
/// operation would always come first.
#[tokio::test(start_paused = true)]
async fn retry_keeps_its_queue_place_until_a_call_is_made() {
    let limiter = limiter();
    while limiter.with_bucket(KEY, |state, now| state.bucket.take(now)).is_ok() {
        tokio::time::advance(Duration::from_millis(20)).await;
    }
    let (waiters, place) = (Waiters::default(), QueuePlace::default());
    let deadline = Instant::now() + Duration::from_secs(100);
    let context = CallContext::mutation(deadline, &waiters, place.clone());
    assert_eq!(context.ticket(|| limiter.ticket()), 0, "it has queued");
    assert!(limiter.acquire(KEY, &context).await.is_none(), "it has no waiters");
    let _waiter = waiters.join();
    let mut callers = JoinSet::new();
    for (name, context) in [
        ("came meanwhile", CallContext::poll(Duration::from_secs(100))),
        ("came back", CallContext::mutation(deadline, &waiters, place.clone())),
    ] {
        let limiter = Arc::clone(&limiter);
        callers.spawn(async move {
            limiter.acquire(KEY, &context).await.expect("a token").report(None);
            (Instant::now(), name)
        });
        tokio::task::yield_now().await;
    }
    let mut served = callers.join_all().await;
    served.sort();
    assert_eq!(served.iter().map(|(_, name)| *name).collect::<Vec<_>>(), ["came back", "came meanwhile"]);
    assert!(!place.is_used());
    context.mark_place_used();
    assert!(place.is_used());
}

#[tokio::test(start_paused = true)]
async fn mutation_without_waiters_takes_no_token() {
    let limiter = limiter();
    let waiters = Waiters::default();
    let deadline = Instant::now() + Duration::from_secs(100);
    let context = CallContext::mutation(deadline, &waiters, QueuePlace::default());
    assert!(limiter.acquire(KEY, &context).await.is_none());
    let waiter = waiters.join();
    assert!(limiter.acquire(KEY, &context).await.is_some());
    while limiter.with_bucket(KEY, |state, now| state.bucket.take(now)).is_ok() {
        tokio::time::advance(Duration::from_millis(20)).await;
    }
    limiter.with_bucket(KEY, |state, now| {
        let token = TokenBucket::new(KEY.documented(), now).take(now).unwrap();
        (0..30).for_each(|n| {
            state.bucket.record_throttled(token, now + Duration::from_millis(n));
        });
    });
    let began = Instant::now();
    let (permit, ()) = tokio::join!(limiter.acquire(KEY, &context), async { drop(waiter) });
    assert!(permit.is_none());
    assert!(began.elapsed() <= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn throttled_call_keeps_its_position() {
    let limiter = limiter();
    let first = CallContext::poll(Duration::from_secs(100));
    let permit = limiter.acquire(KEY, &first).await.unwrap();
    permit.report(Some(ErrorClass::Throttled));
    let later = CallContext::poll(Duration::from_secs(100));
    let order = Mutex::new(Vec::new());
    tokio::join!(
        async {
            limiter.acquire(KEY, &later).await.unwrap().report(None);
            order.lock().unwrap().push("later");
        },
        async {
            limiter.acquire(KEY, &first).await.unwrap().report(None);
            order.lock().unwrap().push("first");
        }
    );
    assert_eq!(*order.lock().unwrap(), ["first", "later"]);
}

#[tokio::test(start_paused = true)]
async fn call_is_retried_after_a_thousand_throttles() {
    let limiter = limiter();
    let context = CallContext::poll(Duration::from_secs(100_000));
    for _ in 0..1_000 {
        limiter.acquire(KEY, &context).await.unwrap().report(Some(ErrorClass::Throttled));
    }
    let began = Instant::now();
    limiter.acquire(KEY, &context).await.unwrap().report(None);
    assert!(began.elapsed() <= Duration::from_secs(11), "{:?}", began.elapsed());
}

#[tokio::test(start_paused = true)]
async fn token_without_a_call_is_refunded() {
    let limiter = limiter();
    for _ in 0..500 {
        drop(limiter.acquire(KEY, &CallContext::poll(Duration::from_secs(1))).await.unwrap());
        let mut unsent = limiter.acquire(KEY, &CallContext::poll(Duration::from_secs(1))).await.unwrap();
        unsent.spend();
        unsent.report(Some(ErrorClass::NotSent));
    }
    assert!(limiter.with_bucket(KEY, |state, now| state.bucket.take(now + Duration::from_secs(1))).is_ok());
}

#[tokio::test(start_paused = true)]
async fn throttled_action_does_not_delay_other_actions() {
    let limiter = limiter();
    let context = CallContext::poll(Duration::from_secs(1_000));
    for _ in 0..20 {
        limiter.acquire(KEY, &context).await.unwrap().report(Some(ErrorClass::Throttled));
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
    limiter.acquire(KEY, &context).await.unwrap().report(None);
    assert!(began.elapsed() > Duration::ZERO, "the action itself is held back");
}
