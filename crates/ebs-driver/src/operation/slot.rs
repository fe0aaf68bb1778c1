use std::any::Any;
use std::collections::HashMap;

use ebs_ec2::{Successor, Waiters};
use tokio::time::Instant;

use super::{Content, Ended, Key};

/// What an operation does, with its type erased. Plans of different types never compare equal.
pub(super) trait AnyPlan: Send {
    fn is_same(&self, other: &dyn Any) -> bool;
    fn takes_other_in(&self, other: &dyn Any) -> bool;
}

impl<P: Content> AnyPlan for P {
    fn is_same(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<P>().is_some_and(|other| self.same(other))
    }

    fn takes_other_in(&self, other: &dyn Any) -> bool {
        other.downcast_ref::<P>().is_some_and(|other| self.takes_in(other))
    }
}

pub(super) struct Running {
    pub(super) plan: Box<dyn AnyPlan>,
    pub(super) waiters: Waiters,
    /// The receiver of the operation's outcome, which only a caller with the right type can use.
    pub(super) outcome: Box<dyn Any + Send>,
    /// Closes when the operation has ended and its key is free.
    pub(super) ended: Ended,
    pub(super) began: Instant,
}

impl Running {
    pub(super) fn new(plan: Box<dyn AnyPlan>, waiters: Waiters, outcome: Box<dyn Any + Send>, ended: Ended) -> Self {
        Self { plan, waiters, outcome, ended, began: Instant::now() }
    }
}

#[derive(Default)]
pub(super) struct Slots {
    pub(super) running: HashMap<Key, Running>,
    pub(super) is_closing: bool,
}

impl Slots {
    /// Returns, unsorted, the running operations that must not run at the same time as one with this key.
    pub(super) fn excluded_by<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a Key, &'a Running)> {
        self.running.iter().filter(|(running, _)| running.excludes(key))
    }

    pub(super) fn supersede_unawaited(&self) -> Vec<Successor> {
        self.running.values().filter(|r| !r.waiters.any()).map(|r| r.waiters.supersede()).collect()
    }
}
