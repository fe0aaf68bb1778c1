//! Test hooks that hold calls or make them fail.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use ebs_ec2::{Action, ErrorClass};
use tokio::sync::Semaphore;

#[derive(Debug, Clone, Copy)]
pub(super) struct Planned {
    pub(super) class: ErrorClass,
    pub(super) after_doing: bool,
}

/// All plans by action. The next call of an action uses the first plan of its list.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    failures: HashMap<Action, VecDeque<Planned>>,
    barriers: HashMap<Action, VecDeque<Barrier>>,
}

impl Hooks {
    pub(super) fn plan(&mut self, action: Action, planned: Planned) {
        self.failures.entry(action).or_default().push_back(planned);
    }

    pub(super) fn next_plan(&mut self, action: Action) -> Option<Planned> {
        self.failures.get_mut(&action)?.pop_front()
    }

    pub(super) fn hold(&mut self, action: Action) -> Gate {
        let (reached, open) = (Arc::new(Semaphore::new(0)), Arc::new(Semaphore::new(0)));
        let barrier = Barrier { reached: Arc::clone(&reached), open: Arc::clone(&open) };
        self.barriers.entry(action).or_default().push_back(barrier);
        Gate { reached, open }
    }

    pub(super) fn next_barrier(&mut self, action: Action) -> Option<Barrier> {
        self.barriers.get_mut(&action)?.pop_front()
    }
}

/// The side of a [`Gate`] at which the call waits.
#[derive(Debug)]
pub(super) struct Barrier {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Barrier {
    /// Reports that the call has arrived, and waits until it may continue.
    pub(super) async fn pass(self) {
        self.reached.add_permits(1);
        // Opening the gate closes the semaphore, so an error also means that the gate is open.
        let _opened = self.open.acquire().await;
    }
}

/// Holds one call. Dropping the gate lets the call continue.
#[derive(Debug)]
pub struct Gate {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Gate {
    /// Waits until the call is held. Never returns if no such call is made, so use a timeout.
    pub async fn reached(&self) {
        if let Ok(permit) = self.reached.acquire().await {
            permit.forget();
            self.reached.add_permits(1);
        }
    }

    /// Lets the call continue.
    pub fn release(self) {
        drop(self);
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        self.open.close();
    }
}
