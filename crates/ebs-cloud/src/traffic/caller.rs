//! For whom a call is made: until when it may wait for its token, and before whom.
//!
//! The port's methods have no room for it, and every call must wait where its token is taken, so it travels beside the
//! call, in its task.

use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::time::Instant;

use super::budget::Permit;
use super::lane::Lane;
use crate::bounds;
use crate::op::Op;

tokio::task_local! {
    static CALLER: Caller;
}

/// Who comes first to a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Turn {
    /// Changes, and looks at what they have become.
    First,
    /// Listings and the like: nothing is held up by them.
    Spare,
}

/// For whom a call is made. Clones are the same caller, with the same place in every queue.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    /// Who comes first.
    pub(crate) turn: Turn,
    /// When it gives up waiting for a token.
    pub(crate) until: Instant,
    waiters: Option<Waiters>,
    ticket: Arc<OnceLock<u64>>,
    permit: Arc<Mutex<Option<Permit>>>,
}

impl Caller {
    fn new(turn: Turn, until: Instant, waiters: Option<Waiters>, permit: Option<Permit>) -> Self {
        Self { turn, until, waiters, ticket: Arc::default(), permit: Arc::new(Mutex::new(permit)) }
    }

    /// A change by an operation: it waits until the operation ends or nobody wants it any more.
    pub(crate) fn change(op: &Op<'_>) -> Self {
        Self::new(Turn::First, op.deadline, Some(op.waiters.clone()), None)
    }

    /// A question that nothing waits for.
    pub(crate) fn question(patience: Duration) -> Self {
        Self::new(Turn::Spare, Instant::now() + patience, None, None)
    }

    /// A look that others wait for.
    pub(crate) fn look(patience: Duration) -> Self {
        Self::new(Turn::First, Instant::now() + patience, None, None)
    }

    /// The same, with the token for its first call.
    pub(crate) fn with(self, permit: Permit) -> Self {
        *self.permit.lock().unwrap_or_else(PoisonError::into_inner) = Some(permit);
        self
    }

    /// The caller of the present call.
    pub(crate) fn current() -> Self {
        CALLER.try_with(Self::clone).unwrap_or_else(|_| Self::question(bounds::LOOK))
    }

    /// Makes a call for this caller.
    pub(crate) async fn scope<F: Future>(&self, call: F) -> F::Output {
        CALLER.scope(self.clone(), call).await
    }

    /// Nobody wants the call any more.
    pub(crate) fn has_left(&self) -> bool {
        self.waiters.as_ref().is_some_and(|waiters| !waiters.any())
    }

    /// The place in queues: that of its first call, so that a throttle does not send it to the end.
    pub(crate) fn ticket(&self, next: impl FnOnce() -> u64) -> u64 {
        *self.ticket.get_or_init(next)
    }

    /// The token that it brings along.
    pub(crate) fn take_permit(&self, lane: Lane) -> Option<Permit> {
        self.permit.lock().unwrap_or_else(PoisonError::into_inner).take_if(|permit| permit.lane() == lane)
    }
}
