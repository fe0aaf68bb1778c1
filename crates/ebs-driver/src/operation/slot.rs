//! The table of running operations: one slot for each key.

use std::any::Any;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ebs_types::Waiters;
use tokio::sync::watch;

use super::Key;

/// A plan whose type has been forgotten and that can still be compared.
trait AnyPlan: Send {
    fn same(&self, other: &dyn Any) -> bool;
}

struct Typed<P>(P);

impl<P: PartialEq + Send + 'static> AnyPlan for Typed<P> {
    fn same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<P>().is_some_and(|other| *other == self.0)
    }
}

/// The content of an operation. Plans of different types are different content.
pub(super) struct Plan(Box<dyn AnyPlan>);

impl Plan {
    pub(super) fn new<P: PartialEq + Send + 'static>(plan: P) -> Self {
        Self(Box::new(Typed(plan)))
    }

    pub(super) fn same<P: 'static>(&self, other: &P) -> bool {
        self.0.same(other)
    }
}

/// A running operation.
pub(super) struct Running {
    pub(super) plan: Plan,
    pub(super) waiters: Waiters,
    /// The receiver of its outcome, whose type only the caller knows.
    pub(super) outcome: Box<dyn Any + Send>,
    /// Closes when the operation has ended and its key is free.
    pub(super) ended: watch::Receiver<()>,
    successors: Arc<AtomicUsize>,
}

/// A call that waits to take over; while it lives nobody joins the operation that is to end.
pub(super) struct Successor(Arc<AtomicUsize>);

impl Drop for Successor {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Running {
    pub(super) fn new(plan: Plan, waiters: Waiters, outcome: Box<dyn Any + Send>, ended: watch::Receiver<()>) -> Self {
        Self { plan, waiters, outcome, ended, successors: Arc::default() }
    }

    pub(super) fn is_superseded(&self) -> bool {
        self.successors.load(Ordering::SeqCst) > 0
    }

    pub(super) fn supersede(&self) -> Successor {
        self.successors.fetch_add(1, Ordering::SeqCst);
        Successor(Arc::clone(&self.successors))
    }
}

/// All slots of one service.
#[derive(Default)]
pub(super) struct Slots {
    running: HashMap<Key, Running>,
    closing: bool,
}

impl Slots {
    pub(super) fn get(&self, key: &Key) -> Option<&Running> {
        self.running.get(key)
    }

    pub(super) fn insert(&mut self, key: Key, running: Running) {
        self.running.insert(key, running);
    }

    pub(super) fn remove(&mut self, key: &Key) {
        self.running.remove(key);
    }

    pub(super) fn keys(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.running.keys().cloned().collect();
        keys.sort();
        keys
    }

    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing
    }
}
