//! Counts the requests that wait for a running operation, and the operations that wait for its end.

use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Counts the requests that wait for one operation. The operation calls [`Waiters::any`] before each mutation. When no
/// request waits any longer, the operation continues to read and starts nothing new.
///
/// It also reports that another operation is to replace this one, which then ends as soon as the call in flight has
/// returned.
#[derive(Debug, Clone, Default)]
pub struct Waiters(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    waiting: AtomicUsize,
    successors: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

/// One waiting request. Dropping it (the client left, its deadline passed) removes it from the count.
#[derive(Debug)]
pub struct Waiter(Arc<Shared>);

/// An operation that waits for this one to end, to replace it. Dropping it withdraws the request.
#[derive(Debug)]
pub struct Successor(Arc<Shared>);

impl Waiters {
    /// Adds a waiting request.
    #[must_use]
    pub fn join(&self) -> Waiter {
        self.0.waiting.fetch_add(1, Ordering::SeqCst);
        self.0.wake_all();
        Waiter(Arc::clone(&self.0))
    }

    /// True while a request waits.
    pub fn any(&self) -> bool {
        self.0.waiting.load(Ordering::SeqCst) > 0
    }

    /// Asks the operation to end. Call it only for an operation for which no request waits.
    #[must_use]
    pub fn supersede(&self) -> Successor {
        self.0.successors.fetch_add(1, Ordering::SeqCst);
        self.0.wake_all();
        Successor(Arc::clone(&self.0))
    }

    /// True while another operation waits for the end of this one.
    pub fn is_superseded(&self) -> bool {
        self.0.successors.load(Ordering::SeqCst) > 0
    }

    /// Returns when another operation waits for the end of this one. Dropping the future loses nothing.
    pub async fn superseded(&self) {
        poll_fn(|cx| self.poll(cx, Self::is_superseded)).await;
    }

    /// Returns when a request waits for this operation. Dropping the future loses nothing.
    pub async fn awaited(&self) {
        poll_fn(|cx| self.poll(cx, Self::any)).await;
    }

    fn poll(&self, cx: &Context<'_>, is_so: impl Fn(&Self) -> bool) -> Poll<()> {
        // The lock is held so that no waiter arrives between the check and the registration.
        let mut wakers = self.0.wakers.lock().unwrap_or_else(PoisonError::into_inner);
        if is_so(self) {
            return Poll::Ready(());
        }
        if !wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
            wakers.push(cx.waker().clone());
        }
        Poll::Pending
    }
}

impl Shared {
    fn wake_all(&self) {
        let wakers = std::mem::take(&mut *self.wakers.lock().unwrap_or_else(PoisonError::into_inner));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Drop for Successor {
    fn drop(&mut self) {
        self.0.successors.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::task::Wake;

    use super::*;

    #[derive(Default)]
    struct WakeFlag(AtomicBool);

    impl Wake for WakeFlag {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Ordering::SeqCst);
        }
    }

    #[test]
    fn no_request_waits_after_last_waiter_leaves() {
        let waiters = Waiters::default();
        assert!(!waiters.any());
        let first = waiters.join();
        let second = waiters.join();
        drop(first);
        assert!(waiters.any());
        drop(second);
        assert!(!waiters.any());
    }

    #[test]
    fn operation_is_woken_when_another_supersedes_it() {
        let waiters = Waiters::default();
        let woken = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        let superseded = || waiters.poll(&Context::from_waker(&waker), Waiters::is_superseded);
        assert!(superseded().is_pending() && superseded().is_pending());
        assert_eq!(waiters.0.wakers.lock().unwrap().len(), 1, "one waker for one task");
        let successor = waiters.supersede();
        assert!(woken.0.load(Ordering::SeqCst) && waiters.is_superseded());
        assert!(superseded().is_ready());
        drop(successor);
        assert!(!waiters.is_superseded(), "the request was withdrawn");
    }

    #[test]
    fn abandoned_operation_is_woken_when_a_request_joins() {
        let waiters = Waiters::default();
        let woken = Arc::new(WakeFlag::default());
        let waker = Waker::from(Arc::clone(&woken));
        assert!(waiters.poll(&Context::from_waker(&waker), Waiters::any).is_pending());
        let waiter = waiters.join();
        assert!(woken.0.load(Ordering::SeqCst));
        assert!(waiters.poll(&Context::from_waker(&waker), Waiters::any).is_ready());
        drop(waiter);
    }
}
