//! What the rate limiter must know of a call: its priority, its deadline and who waits for it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::time::Instant;

use super::wait_queue::Priority;

/// A position in the queues of the rate limiter: that of the first try. Whoever keeps it while a request is repeated is served
/// before those who came later. It is used up by the first call that is made; clones are one.
#[derive(Debug, Clone, Default)]
pub struct QueuePlace {
    ticket: Arc<OnceLock<u64>>,
    is_used: Arc<AtomicBool>,
}

impl QueuePlace {
    /// True when a call has been made from it: the next one begins at the end of the queue.
    pub fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}

/// The context of a call. Clones share the position in every queue.
#[derive(Debug, Clone)]
pub(crate) struct CallContext {
    pub(crate) priority: Priority,
    pub(crate) deadline: Instant,
    waiters: Option<Waiters>,
    place: QueuePlace,
}

impl CallContext {
    fn new(priority: Priority, deadline: Instant, waiters: Option<Waiters>) -> Self {
        Self { priority, deadline, waiters, place: QueuePlace::default() }
    }

    /// A mutation: it waits until the deadline, or until nobody waits for its operation any more.
    pub(crate) fn mutation(deadline: Instant, waiters: &Waiters, place: QueuePlace) -> Self {
        Self { place, ..Self::new(Priority::High, deadline, Some(waiters.clone())) }
    }

    /// A read that no operation waits for.
    pub(crate) fn background(bound: Duration) -> Self {
        Self::new(Priority::Low, Instant::now() + bound, None)
    }

    /// A read that operations wait for.
    pub(crate) fn poll(bound: Duration) -> Self {
        Self::new(Priority::High, Instant::now() + bound, None)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.waiters.as_ref().is_some_and(|waiters| !waiters.any())
    }

    /// A call is made: its repetitions keep the position, requests that come later do not get it.
    pub(crate) fn use_place(&self) {
        self.place.is_used.store(true, Ordering::Relaxed);
    }

    /// The position in queues: that of the first try, so that a throttle does not send the call to the end.
    pub(crate) fn ticket(&self, next: impl FnOnce() -> u64) -> u64 {
        *self.place.ticket.get_or_init(next)
    }
}
