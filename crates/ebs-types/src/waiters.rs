//! Who still waits for a running operation.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Counts the requests that wait for one operation. The operation asks [`Waiters::any`] before each mutation: when
/// nobody waits any more it looks at the outcome of what is in flight and starts nothing new (`decisions.md` D-10).
#[derive(Debug, Clone, Default)]
pub struct Waiters(Arc<AtomicUsize>);

/// One request that waits; dropping it (the client left, its deadline passed) takes it off the count.
#[derive(Debug)]
pub struct Waiter(Arc<AtomicUsize>);

impl Waiters {
    /// Adds a request.
    #[must_use]
    pub fn join(&self) -> Waiter {
        self.0.fetch_add(1, Ordering::SeqCst);
        Waiter(Arc::clone(&self.0))
    }

    /// True while a request waits.
    pub fn any(&self) -> bool {
        self.0.load(Ordering::SeqCst) > 0
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_waiter_to_leave_leaves_nobody() {
        let waiters = Waiters::default();
        assert!(!waiters.any());
        let first = waiters.join();
        let second = waiters.join();
        drop(first);
        assert!(waiters.any());
        drop(second);
        assert!(!waiters.any());
    }
}
