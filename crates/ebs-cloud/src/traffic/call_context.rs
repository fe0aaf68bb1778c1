//! What the rate limiter needs for a call: its priority, its deadline and its waiters.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ebs_ec2::Waiters;
use tokio::time::Instant;

use super::wait_queue::Priority;

/// A place in the rate limiter's queues, shared by clones: the first wait for a token sets the place, and a call uses
/// it up.
#[derive(Debug, Clone, Default)]
pub(crate) struct QueuePlace {
    ticket: Arc<OnceLock<u64>>,
    is_used: Arc<AtomicBool>,
}

impl QueuePlace {
    pub(crate) fn is_used(&self) -> bool {
        self.is_used.load(Ordering::Relaxed)
    }
}

/// The context of a call. Clones share the position in each queue.
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

    pub(crate) fn mutation(deadline: Instant, waiters: &Waiters, place: QueuePlace) -> Self {
        Self { place, ..Self::new(Priority::High, deadline, Some(waiters.clone())) }
    }

    pub(crate) fn background(bound: Duration) -> Self {
        Self::new(Priority::Low, Instant::now() + bound, None)
    }

    pub(crate) fn poll(bound: Duration) -> Self {
        Self::new(Priority::High, Instant::now() + bound, None)
    }

    pub(crate) fn is_abandoned(&self) -> bool {
        self.waiters.as_ref().is_some_and(|waiters| !waiters.any())
    }

    /// Records that a call is made. Retries of the call keep its queue position, but later requests cannot take it
    /// over.
    pub(crate) fn mark_place_used(&self) {
        self.place.is_used.store(true, Ordering::Relaxed);
    }

    /// Returns the position in the queues. A retry keeps the position of the first try.
    pub(crate) fn ticket(&self, next: impl FnOnce() -> u64) -> u64 {
        *self.place.ticket.get_or_init(next)
    }
}
