//! The process's rate limiter, with a queue and an estimated bucket for each of EC2's buckets. Each call waits for its
//! token until its deadline, or until no client waits for it. A throttled call keeps its position in the queue.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ebs_ec2::{ErrorClass, Observer};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use super::bucket_key::BucketKey;
use super::call_context::CallContext;
use super::token_bucket::{Token, TokenBucket};
use super::wait_queue::{Position, Priority, WaitQueue};

const MIN_REPORTED_WAIT: Duration = Duration::from_millis(1);
const ABANDONED_CHECK_INTERVAL: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct BucketState {
    bucket: TokenBucket,
    queue: WaitQueue,
}

pub(crate) struct RateLimiter {
    buckets: Mutex<HashMap<BucketKey, BucketState>>,
    tickets: AtomicU64,
    observer: Option<Arc<dyn Observer>>,
}

impl fmt::Debug for RateLimiter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RateLimiter").field("buckets", &self.buckets).finish_non_exhaustive()
    }
}

impl RateLimiter {
    pub(crate) fn new(observer: Option<Arc<dyn Observer>>) -> Self {
        Self { buckets: Mutex::default(), tickets: AtomicU64::new(0), observer }
    }

    fn with_bucket<T>(&self, key: BucketKey, f: impl FnOnce(&mut BucketState, Instant) -> T) -> T {
        let now = Instant::now();
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let state = buckets.entry(key).or_insert_with(|| BucketState {
            bucket: TokenBucket::new(key.documented(), now),
            queue: WaitQueue::default(),
        });
        f(state, now)
    }

    pub(crate) fn rate(&self, key: BucketKey) -> f64 {
        self.with_bucket(key, |state, _| state.bucket.rate())
    }

    /// Waits for a token. Returns `None` at the call's deadline, or when no client waits for the call. Cancellation:
    /// dropping the future gives up the position in the queue and loses no token.
    pub(crate) async fn acquire(self: &Arc<Self>, key: BucketKey, context: &CallContext) -> Option<Permit> {
        let began = Instant::now();
        let queued = QueuedCall::join(self, key, context);
        let permit = queued.wait(context).await;
        let waited = began.elapsed();
        if let Some(observer) = &self.observer
            && waited >= MIN_REPORTED_WAIT
        {
            observer.waited(key.action(), waited);
        }
        permit
    }

    /// Takes a spare token, if there is one: a token that no call waits for or needs soon.
    pub(crate) fn acquire_spare(self: &Arc<Self>, key: BucketKey) -> Option<Permit> {
        let spare = |state: &mut BucketState, now| {
            if state.queue.front().is_none() { state.bucket.take_spare(now) } else { None }
        };
        Some(Permit { limiter: Arc::clone(self), key, token: self.with_bucket(key, spare)?, used: false })
    }

    fn ticket(&self) -> u64 {
        self.tickets.fetch_add(1, Ordering::Relaxed)
    }
}

/// A call in a queue. Dropping it removes it from the queue.
struct QueuedCall<'a> {
    limiter: &'a Arc<RateLimiter>,
    key: BucketKey,
    priority: Priority,
    position: Position,
    waker: Arc<Notify>,
    served: bool,
}

impl<'a> QueuedCall<'a> {
    fn join(limiter: &'a Arc<RateLimiter>, key: BucketKey, context: &CallContext) -> Self {
        let waker = Arc::new(Notify::new());
        let position = (context.ticket(|| limiter.ticket()), limiter.ticket());
        limiter.with_bucket(key, |state, _| state.queue.join(context.priority, position, Arc::clone(&waker)));
        Self { limiter, key, priority: context.priority, position, waker, served: false }
    }

    async fn wait(mut self, context: &CallContext) -> Option<Permit> {
        loop {
            if context.is_abandoned() {
                return None;
            }
            let not_before = match self.try_take() {
                Ok(token) => {
                    return Some(Permit { limiter: Arc::clone(self.limiter), key: self.key, token, used: false });
                }
                Err(not_before) => not_before,
            };
            let now = Instant::now();
            if now >= context.deadline {
                return None;
            }
            let next_check = (now + ABANDONED_CHECK_INTERVAL).min(context.deadline);
            let wake = not_before.map_or(next_check, |at| at.min(next_check));
            tokio::select! {
                () = sleep_until(wake) => {}
                () = self.waker.notified() => {}
            }
        }
    }

    /// Takes a token, or returns the instant of the next try. `None` as the instant means to wait for the waker.
    fn try_take(&mut self) -> Result<Token, Option<Instant>> {
        let me = (self.priority, self.position);
        self.limiter.with_bucket(self.key, |state, now| {
            if state.queue.front() != Some(me) {
                return Err(None);
            }
            let token = state.bucket.take(now).map_err(Some)?;
            state.queue.record_served(self.priority, self.position);
            self.served = true;
            Ok(token)
        })
    }
}

impl Drop for QueuedCall<'_> {
    fn drop(&mut self) {
        if !self.served {
            self.limiter.with_bucket(self.key, |state, _| state.queue.leave(self.priority, self.position));
        }
    }
}

/// A token for one call. Dropping it without a report leaves the estimate of EC2's bucket unchanged.
#[derive(Debug)]
pub(crate) struct Permit {
    limiter: Arc<RateLimiter>,
    key: BucketKey,
    token: Token,
    used: bool,
}

impl Permit {
    pub(super) fn is_for(&self, key: BucketKey) -> bool {
        self.key == key
    }

    pub(crate) fn spend(&mut self) {
        self.used = true;
    }

    /// Reports the call's outcome. `None` means success.
    pub(crate) fn report(mut self, error: Option<ErrorClass>) {
        self.used = error != Some(ErrorClass::NotSent);
        let key = self.key;
        self.limiter.with_bucket(key, |state, now| match error {
            Some(ErrorClass::Throttled) => {
                if state.bucket.record_throttled(self.token, now) {
                    let per_second = format!("{:.2}", state.bucket.rate());
                    tracing::debug!(action = %key.action(), per_second, "throttled by EC2, reducing the call rate");
                }
            }
            // EC2 may or may not have taken a token for the call.
            Some(ErrorClass::Ambiguous | ErrorClass::NotSent) => {}
            _ => state.bucket.record_accepted(self.token, now),
        });
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if !self.used {
            self.limiter.with_bucket(self.key, |state, now| state.bucket.refund(now));
        }
    }
}

#[cfg(test)]
#[path = "rate_limiter_tests.rs"]
mod tests;
