//! A running operation, with its description, its deadline and its waiters.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebs_ec2::Waiters;
use tokio::time::Instant;

use crate::error::{CloudError, CloudErrorKind, Result};

#[derive(Debug)]
pub(crate) struct OpContext<'a> {
    /// A fragment for messages with the action and its object: `attach vol-1 to i-2`.
    pub(crate) what: String,
    pub(crate) deadline: Instant,
    pub(crate) waiters: &'a Waiters,
    has_mutated: AtomicBool,
}

impl fmt::Display for OpContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl<'a> OpContext<'a> {
    pub(crate) fn start(what: String, bound: Duration, waiters: &'a Waiters) -> Self {
        Self { what, deadline: Instant::now() + bound, waiters, has_mutated: AtomicBool::new(false) }
    }

    /// Returns true once the operation may have sent a mutating call. Until then, it may end with any error.
    pub(crate) fn has_mutated(&self) -> bool {
        self.has_mutated.load(Ordering::Relaxed)
    }

    pub(crate) fn mark_mutated(&self) {
        self.has_mutated.store(true, Ordering::Relaxed);
    }

    /// Returns an error if no client is waiting. Call it only before mutations.
    pub(crate) fn ensure_wanted(&self) -> Result<()> {
        if self.waiters.any() && !self.waiters.is_superseded() { Ok(()) } else { Err(self.abandoned()) }
    }

    /// Runs a future that starts no mutation. Fails as soon as another operation replaces this one.
    pub(crate) async fn unless_superseded<F: Future>(&self, looking: F) -> Result<F::Output> {
        tokio::select! {
            biased;
            () = self.waiters.superseded() => Err(self.abandoned()),
            done = looking => Ok(done),
        }
    }

    pub(crate) async fn sleep_until(&self, instant: Instant) -> Result<()> {
        self.unless_superseded(tokio::time::sleep_until(instant)).await
    }

    fn abandoned(&self) -> CloudError {
        let message =
            format!("{self}: aborted because no caller waits for the result any more; no further step was started");
        CloudErrorKind::Abandoned.error(message)
    }
}
