//! What the rate limiter must know of a call: its priority, its deadline and who waits for it.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::time::Instant;

use super::wait_queue::Priority;

/// The context of a call. Clones share the position in every queue.
#[derive(Debug, Clone)]
pub(crate) struct CallContext {
    pub(crate) priority: Priority,
    pub(crate) deadline: Instant,
    waiters: Option<Waiters>,
    ticket: Arc<OnceLock<u64>>,
}

impl CallContext {
    fn new(priority: Priority, deadline: Instant, waiters: Option<Waiters>) -> Self {
        Self { priority, deadline, waiters, ticket: Arc::default() }
    }

    /// A mutation: it waits until the deadline, or until nobody waits for its operation any more.
    pub(crate) fn mutation(deadline: Instant, waiters: &Waiters) -> Self {
        Self::new(Priority::High, deadline, Some(waiters.clone()))
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

    /// The position in queues: that of the first try, so that a throttle does not send the call to the end.
    pub(crate) fn ticket(&self, next: impl FnOnce() -> u64) -> u64 {
        *self.ticket.get_or_init(next)
    }
}
