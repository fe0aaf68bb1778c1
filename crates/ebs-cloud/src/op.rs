//! One running operation: what it does, until when, and for whom.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use ebs_types::Waiters;
use tokio::time::Instant;

use crate::CloudError;

/// Handed through the steps of an operation.
#[derive(Debug)]
pub(crate) struct Op<'a> {
    /// What is done to what, as a fragment for messages: `attach vol-1 to i-2`.
    pub(crate) what: String,
    /// The end of its bound.
    pub(crate) deadline: Instant,
    /// Who waits for it.
    pub(crate) waiters: &'a Waiters,
    /// It has made a mutating call.
    has_mutated: AtomicBool,
}

impl<'a> Op<'a> {
    /// An operation that starts now.
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

    /// Asked before each mutation.
    pub(crate) fn still_wanted(&self) -> Result<(), CloudError> {
        if self.waiters.any() { Ok(()) } else { Err(CloudError::Abandoned { step: self.what.clone() }) }
    }
}
