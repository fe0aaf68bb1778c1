//! A Windows machine in memory, for tests of this crate and of crates that use it. It has a state that steps change,
//! injected faults, and a log of all calls.
//!
//! It replaces only Windows, below all decisions, so it does not check clients' requests. Its errors are Windows' own
//! codes, as far as Microsoft documents them. `csi-proxy selftest` compares it with a real machine.

mod attachments;
pub mod control;
mod description;
mod disks;
mod faults;
mod files;
mod network;
mod system;
mod volumes;

use std::fmt::Display;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use crate::host::{Answer, HostError};

pub use description::{Description, Entry, FaultDescription};
pub use disks::{FakeDisk, Late};
pub use faults::{Effect, Gate};
pub use network::{FakePortal, FakeShare, FakeTarget};
pub use system::FakeService;

#[derive(Clone)]
pub struct FakeHost {
    inner: Arc<Inner>,
}

struct Inner {
    state: Mutex<State>,
    faults: Mutex<faults::Faults>,
    log: Mutex<Vec<String>>,
    clock: Clock,
    never: (Mutex<()>, Condvar),
}

#[derive(Debug)]
enum Clock {
    Virtual(Mutex<Duration>),
    /// The clock of the machine on which the test runs.
    Real,
}

#[derive(Debug, Default)]
pub(crate) struct State {
    disks: disks::Disks,
    files: files::Files,
    shares: network::Shares,
    iscsi: network::Iscsi,
    system: system::System,
    /// Whether the process has crashed. Every call then fails until [`FakeHost::restart`].
    is_down: bool,
}

impl FakeHost {
    pub fn new() -> Self {
        Self::from_state(State::with_system_disk(), Clock::Virtual(Mutex::default()))
    }

    /// Creates the machine for `--host=fake:FILE` of a test build from JSON, see [`Description`]. Its delays take real
    /// time. Errors: the text is not a valid description.
    pub fn from_json(text: &str) -> Result<Self, String> {
        let description: Description = serde_json::from_str(text).map_err(|error| error.to_string())?;
        Self::from_description(&description)
    }

    pub fn from_description(description: &Description) -> Result<Self, String> {
        let clock = if description.virtual_time { Clock::Virtual(Mutex::default()) } else { Clock::Real };
        let host = Self::from_state(description.state()?, clock);
        for fault in &description.faults {
            host.inject(&fault.step, fault.skip, fault.effect()?);
        }
        Ok(host)
    }

    fn from_state(state: State, clock: Clock) -> Self {
        let inner = Inner {
            state: Mutex::new(state),
            faults: Mutex::default(),
            log: Mutex::default(),
            clock,
            never: (Mutex::default(), Condvar::new()),
        };
        Self { inner: Arc::new(inner) }
    }

    /// Skips the next `skip` calls of `step`, and gives the following call this `effect`. A step is named after its
    /// trait method.
    pub fn inject(&self, step: &str, skip: usize, effect: Effect) {
        locked(&self.inner.faults).add(step, skip, effect);
    }

    pub fn log(&self) -> Vec<String> {
        locked(&self.inner.log).clone()
    }

    pub fn clear_log(&self) {
        locked(&self.inner.log).clear();
    }

    pub fn calls(&self, step: &str) -> usize {
        let is_it = |line: &&String| line.split(' ').next() == Some(step);
        locked(&self.inner.log).iter().filter(is_it).count()
    }

    pub fn restart(&self) {
        self.state().is_down = false;
    }

    pub fn is_down(&self) -> bool {
        self.state().is_down
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.inner.state)
    }

    fn step<T>(
        &self,
        step: &'static str,
        object: impl Display,
        act: impl FnOnce(&mut State) -> Result<T, Answer>,
    ) -> Result<T, HostError> {
        let object = object.to_string();
        locked(&self.inner.log).push(format!("{step} {object}"));
        let failed = |answer| HostError { step, object: object.clone(), answer };
        let crashed = || failed(Answer::Malformed("the process has crashed".to_owned()));
        if self.state().is_down {
            return Err(crashed());
        }
        let effect = locked(&self.inner.faults).take(step);
        let act = |state: &mut State| {
            state.disks.now = self.time();
            act(state).map_err(failed)
        };
        match effect {
            None => act(&mut self.state()),
            Some(Effect::Fail(answer)) => Err(failed(answer)),
            Some(Effect::FailAfter(answer)) => {
                act(&mut self.state())?;
                Err(failed(answer))
            }
            Some(Effect::Delay(time)) => {
                self.wait(time);
                act(&mut self.state())
            }
            Some(Effect::Hold(gate)) => {
                gate.pass();
                act(&mut self.state())
            }
            Some(Effect::Meanwhile(change)) => {
                change(self);
                act(&mut self.state())
            }
            Some(Effect::CrashAfter) => {
                let mut state = self.state();
                // The caller never gets the result.
                let _lost = act(&mut state);
                state.is_down = true;
                Err(crashed())
            }
        }
    }

    fn wait(&self, time: Duration) {
        match &self.inner.clock {
            Clock::Virtual(now) => *locked(now) += time,
            Clock::Real => {
                let (lock, never) = &self.inner.never;
                let end = now().saturating_add(time);
                let mut guard = locked(lock);
                while let Some(left) = end.checked_sub(now()).filter(|left| !left.is_zero()) {
                    guard = never.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0;
                }
            }
        }
    }

    fn time(&self) -> Duration {
        match &self.inner.clock {
            Clock::Virtual(now) => *locked(now),
            Clock::Real => now(),
        }
    }
}

impl Default for FakeHost {
    fn default() -> Self {
        Self::new()
    }
}

fn now() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
