//! Counts the requests that wait for a running operation, and the operations that wait to replace it.

use tokio::sync::watch::Sender;

/// Counts the requests that wait for one operation. The operation calls [`Waiters::any`] before each mutation. Once no
/// request waits, the operation may still read, but starts no further mutation. If another operation is waiting to
/// replace this one, this one ends as soon as its call in flight has returned.
#[derive(Debug, Clone, Default)]
pub struct Waiters(Sender<Counts>);

#[derive(Debug, Default)]
struct Counts {
    waiting: usize,
    successors: usize,
}

/// A waiting request. Dropping it, because the client left or its deadline passed, removes it from the count.
#[derive(Debug)]
pub struct Waiter(Sender<Counts>);

/// An operation that waits to replace the current one. Dropping it cancels the replacement.
#[derive(Debug)]
pub struct Successor(Sender<Counts>);

impl Waiters {
    /// Adds a waiting request.
    #[must_use]
    pub fn join(&self) -> Waiter {
        self.0.send_modify(|counts| counts.waiting += 1);
        Waiter(self.0.clone())
    }

    /// Returns true while a request waits.
    pub fn any(&self) -> bool {
        self.0.borrow().waiting > 0
    }

    /// Asks the operation to end so that another can replace it. Call it only if no request waits for the operation.
    #[must_use]
    pub fn supersede(&self) -> Successor {
        self.0.send_modify(|counts| counts.successors += 1);
        Successor(self.0.clone())
    }

    /// Returns true while another operation waits to replace this one.
    pub fn is_superseded(&self) -> bool {
        self.0.borrow().successors > 0
    }

    /// Waits until another operation waits to replace this one. Dropping the future loses nothing.
    pub async fn superseded(&self) {
        drop(self.0.subscribe().wait_for(|counts| counts.successors > 0).await);
    }

    /// Waits until a request waits for this operation. Dropping the future loses nothing.
    pub async fn awaited(&self) {
        drop(self.0.subscribe().wait_for(|counts| counts.waiting > 0).await);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.waiting -= 1);
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.successors -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_waiter_is_reported_after_the_last_one_leaves() {
        let waiters = Waiters::default();
        assert!(!waiters.any());
        let first = waiters.join();
        let second = waiters.join();
        drop(first);
        assert!(waiters.any());
        drop(second);
        assert!(!waiters.any());
    }

    #[tokio::test]
    async fn abandoned_operation_is_woken_by_a_request_or_a_successor() {
        let waiters = Waiters::default();
        let join = async { waiters.join() };
        let ((), waiter) = tokio::join!(biased; waiters.awaited(), join);
        drop(waiter);
        let supersede = async { waiters.supersede() };
        let ((), successor) = tokio::join!(biased; waiters.superseded(), supersede);
        drop(successor);
        assert!(!waiters.any() && !waiters.is_superseded(), "both have left");
    }
}
