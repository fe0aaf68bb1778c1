//! One running operation: what it does, until when, and for whom.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::time::Instant;

use crate::error::{CloudError, CloudErrorKind};

#[derive(Debug)]
pub(crate) struct Op<'a> {
    /// What is done to what, as a fragment for messages: `attach vol-1 to i-2`.
    pub(crate) what: String,
    pub(crate) deadline: Instant,
    pub(crate) waiters: &'a Waiters,
    has_mutated: AtomicBool,
}

impl fmt::Display for Op<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl<'a> Op<'a> {
    pub(crate) fn start(what: String, bound: Duration, waiters: &'a Waiters) -> Self {
        Self { what, deadline: Instant::now() + bound, waiters, has_mutated: AtomicBool::new(false) }
    }

    /// Before its first mutating call an operation has nothing to prove: it may end with any error.
    pub(crate) fn has_mutated(&self) -> bool {
        self.has_mutated.load(Ordering::Relaxed)
    }

    /// Told before each mutating call.
    pub(crate) fn mutates(&self) {
        self.has_mutated.store(true, Ordering::Relaxed);
    }

    /// Asked before each mutation, and only then: an operation that only looks goes on to its end for those who come
    /// after.
    pub(crate) fn still_wanted(&self) -> Result<(), CloudError> {
        if self.waiters.any() && !self.waiters.is_superseded() { Ok(()) } else { Err(self.abandoned()) }
    }

    /// Does what starts no mutation, unless another operation is to run in place of this one.
    pub(crate) async fn unless_superseded<F: Future>(&self, looking: F) -> Result<F::Output, CloudError> {
        tokio::select! {
            biased;
            () = self.waiters.superseded() => Err(self.abandoned()),
            done = looking => Ok(done),
        }
    }

    /// Waits, for what needs no describe.
    pub(crate) async fn sleep_until(&self, instant: Instant) -> Result<(), CloudError> {
        self.unless_superseded(tokio::time::sleep_until(instant)).await
    }

    fn abandoned(&self) -> CloudError {
        let message = format!("{self}: nobody waits for it any more, nothing further was started");
        CloudErrorKind::Abandoned.error(message)
    }
}
