//! Faults: which call of a step fails, waits or crashes.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use super::FakeHost;
use crate::host::Answer;

pub enum Effect {
    Fail(Answer),
    /// The call takes effect and then fails, as when a reply is lost.
    FailAfter(Answer),
    Delay(Duration),
    Hold(Gate),
    Meanwhile(Box<dyn FnOnce(&FakeHost) + Send>),
    /// The call takes effect, and then the calling process dies: all further calls fail until [`FakeHost::restart`].
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

/// This is longer than any test waits. A gate that is never opened makes the test fail instead of hang.
const LONGEST_HOLD: Duration = Duration::from_secs(60);

impl Gate {
    pub fn open(&self) {
        let (state, changed) = &*self.inner;
        state.lock().unwrap_or_else(PoisonError::into_inner).is_open = true;
        changed.notify_all();
    }

    /// Waits until a call reaches the gate. Returns false if no call does so within a minute.
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

#[derive(Default)]
pub(super) struct Faults {
    ahead: BTreeMap<String, Vec<(usize, Effect)>>,
}

impl Faults {
    pub(super) fn add(&mut self, step: &str, skip: usize, effect: Effect) {
        self.ahead.entry(step.to_owned()).or_default().push((skip, effect));
    }

    /// Returns the fault for this call of `step`. Counts the call for all other faults of the step.
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
