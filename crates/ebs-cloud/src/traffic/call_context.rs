//! For whom a call is made: until when it may wait for its token, and before whom.
//!
//! The port's methods have no room for it, and every call must wait where its token is taken, so it travels beside the
//! call, in its task.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::time::Instant;

use super::bucket_key::BucketKey;
use super::limiter::Permit;
use crate::bounds;
use crate::op::Op;

tokio::task_local! {
    static CONTEXT: CallContext;
}

/// Who comes first to a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Changes, and looks at what they have become.
    High,
    /// Listings and the like: nothing is held up by them.
    Low,
}

/// For whom a call is made. Clones are the same caller, with the same place in every queue.
#[derive(Debug, Clone)]
pub(crate) struct CallContext {
    /// Who comes first.
    pub(crate) priority: Priority,
    /// When it gives up waiting for a token.
    pub(crate) deadline: Instant,
    waiters: Option<Waiters>,
    ticket: Arc<OnceLock<u64>>,
    permit: Arc<Mutex<Option<Permit>>>,
}

impl CallContext {
    fn new(priority: Priority, deadline: Instant, waiters: Option<Waiters>, permit: Option<Permit>) -> Self {
        Self { priority, deadline, waiters, ticket: Arc::default(), permit: Arc::new(Mutex::new(permit)) }
    }

    /// A change by an operation: it waits until the operation ends or nobody wants it any more.
    pub(crate) fn mutation(op: &Op<'_>) -> Self {
        Self::new(Priority::High, op.deadline, Some(op.waiters.clone()), None)
    }

    /// A question that nothing waits for.
    pub(crate) fn background(bound: Duration) -> Self {
        Self::new(Priority::Low, Instant::now() + bound, None, None)
    }

    /// A look that others wait for.
    pub(crate) fn poll(bound: Duration) -> Self {
        Self::new(Priority::High, Instant::now() + bound, None, None)
    }

    /// The same, with the token for its first call.
    pub(crate) fn with_permit(self, permit: Permit) -> Self {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        self
    }

    /// The caller of the present call.
    pub(crate) fn current() -> Self {
        CONTEXT.try_with(Self::clone).unwrap_or_else(|_| Self::background(bounds::DESCRIBE))
    }

    /// Makes a call for this caller.
    pub(crate) async fn scope<F: Future>(&self, call: F) -> F::Output {
        CONTEXT.scope(self.clone(), call).await
    }

    /// Nobody wants the call any more.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.waiters.as_ref().is_some_and(|waiters| !waiters.any())
    }

    /// The place in queues: that of its first call, so that a throttle does not send it to the end.
    pub(crate) fn ticket(&self, next: impl FnOnce() -> u64) -> u64 {
        *self.ticket.get_or_init(next)
    }

    /// The token that it brings along.
    pub(crate) fn take_permit(&self, key: BucketKey) -> Option<Permit> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner).take_if(|permit| permit.key() == key)
    }
}
