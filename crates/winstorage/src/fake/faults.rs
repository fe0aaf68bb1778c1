//! What goes wrong, and when.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::FakeHost;
use crate::host::Answer;

/// What happens to one call of a step.
pub enum Effect {
    /// It is refused.
    Fail(Answer),
    /// It is done, and refused all the same: a lost reply.
    FailAfter(Answer),
    /// It takes so long before it is done.
    Delay(Duration),
    /// It waits for the gate.
    Hold(Gate),
    /// Something else happens on the machine right before it.
    Meanwhile(Box<dyn FnOnce(&FakeHost) + Send>),
    /// It is done, and then the calling process dies: all further calls fail until [`FakeHost::restart`].
    CrashAfter,
}

/// Holds one call until a test opens it.
#[derive(Debug, Clone, Default)]
pub struct Gate {
    inner: Arc<(Mutex<GateState>, Condvar)>,
}

#[derive(Debug, Default)]
struct GateState {
    is_reached: bool,
    is_open: bool,
}

/// Longer than any test waits; a gate that nobody opens fails the test instead of hanging it.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

impl Gate {
    /// Lets the call through.
    pub fn open(&self) {
        let (state, changed) = &*self.inner;
        state.lock().unwrap_or_else(PoisonError::into_inner).is_open = true;
        changed.notify_all();
    }

    /// Waits until a call stands at the gate; false when none came within a minute.
    #[must_use]
    pub fn wait_reached(&self) -> bool {
        self.wait(|state| state.is_reached)
    }

    pub(super) fn pass(&self) {
        let (state, changed) = &*self.inner;
        state.lock().unwrap_or_else(PoisonError::into_inner).is_reached = true;
        changed.notify_all();
        self.wait(|state| state.is_open);
    }

    fn wait(&self, is_so: impl Fn(&GateState) -> bool) -> bool {
        let (state, changed) = &*self.inner;
        let guard = state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(guard, LONGEST_HOLD, |state| !is_so(state));
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
    }
}

/// Effects to come, by step.
#[derive(Default)]
pub(super) struct Faults {
    ahead: BTreeMap<String, Vec<(usize, Effect)>>,
}

impl Faults {
    pub(super) fn add(&mut self, step: &str, skip: usize, effect: Effect) {
        self.ahead.entry(step.to_owned()).or_default().push((skip, effect));
    }

    /// What this call of `step` meets; every other effect of the step comes one call nearer.
    pub(super) fn take(&mut self, step: &str) -> Option<Effect> {
        let ahead = self.ahead.get_mut(step)?;
        let due = ahead.iter().position(|(skip, _)| *skip == 0);
        let taken = due.map(|at| ahead.remove(at).1);
        for (skip, _) in ahead.iter_mut() {
            *skip = skip.saturating_sub(1);
        }
        taken
    }
}
