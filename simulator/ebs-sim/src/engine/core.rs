//! The state and its effects. One caller at a time uses them, and no function waits.
//!
//! The journal contains every input of the state before any client sees its result.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use tokio::sync::{Notify, oneshot};

use crate::api::{Call, Fault, Reply};
use crate::faults::FaultInjection;
use crate::iam::{Caller, Judgement, Rights};
use crate::state::{Effect, Outcome, Sim};

use super::clock::Clock;
use super::journal::Input;
use super::store::Store;
use super::{StateView, TimingOverride};

pub(super) type ReplySender = oneshot::Sender<Result<Reply, Fault>>;

#[derive(Debug)]
pub(super) struct HeldReply {
    pub(super) reply: Reply,
    pub(super) answer: ReplySender,
}

#[derive(Debug)]
pub(super) struct Work {
    pub(super) effect: Effect,
    pub(super) held: Option<HeldReply>,
}

#[expect(clippy::large_enum_variant, reason = "the caller destructures it at once, so a box would cost more")]
pub(super) enum Applied {
    Now(Result<Reply, Fault>),
    /// The result, which arrives once the data of the call is copied.
    Later(oneshot::Receiver<Result<Reply, Fault>>),
}

/// The state and its effects. Clones share everything.
#[derive(Debug, Clone)]
pub(super) struct Core {
    guarded: Arc<Mutex<Inner>>,
    /// Notified when there is new work, or when the next due time changes.
    pub(super) changed: Arc<Notify>,
}

#[derive(Debug)]
pub(super) struct Inner {
    sim: Sim,
    clock: Clock,
    /// Whether there is a data plane. Without one, effects finish as soon as they begin.
    has_plane: bool,
    store: Option<Store>,
    pub(super) work: Vec<Work>,
    /// Whether the engine has stopped accepting calls.
    pub(super) ended: bool,
    /// All changes that were due by this time have been applied.
    settled_at: SystemTime,
}

impl Core {
    pub(super) fn new(sim: Sim, clock: Clock, has_plane: bool, store: Option<Store>) -> Self {
        let settled_at = clock.now();
        let guarded = Inner { sim, clock, has_plane, store, work: Vec::new(), ended: false, settled_at };
        Self { guarded: Arc::new(Mutex::new(guarded)), changed: Arc::default() }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.guarded.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the permission for a call in the current state.
    pub(super) fn authorize(&self, rights: &Rights, caller: &Caller, call: &Call) -> Judgement {
        if rights.are_unlimited(caller) {
            return Judgement::default();
        }
        let mut core = self.lock();
        core.settle();
        rights.authorize(caller, call, &core.sim)
    }

    /// Executes a call. `key_refused` means that the caller lacks the permission for a key that the call uses.
    pub(super) fn apply(&self, call: Call, key_refused: bool, injection: FaultInjection) -> Applied {
        let mut core = self.lock();
        if core.ended {
            return Applied::Now(Err(Fault::with_status(503, "Unavailable", "The simulator is shutting down.")));
        }
        let applied = core.apply(call, key_refused, injection);
        if core.has_plane {
            self.changed.notify_one();
        }
        applied
    }

    /// Stops accepting calls. Returns false if the engine has already stopped accepting them.
    pub(super) fn end(&self) -> bool {
        !std::mem::replace(&mut self.lock().ended, true)
    }

    pub(super) fn set_timing(&self, timing: TimingOverride) {
        let mut core = self.lock();
        core.sim.set_timing(timing);
        let now = core.clock.now();
        core.write(now, Input::Timing(timing));
        self.changed.notify_one();
    }

    pub(super) fn timing(&self) -> TimingOverride {
        self.lock().sim.timing()
    }

    /// Starts to keep previous versions of objects, for stale reads.
    pub(super) fn keep_past(&self) {
        let mut core = self.lock();
        core.settle();
        let now = core.clock.now();
        core.sim.keep_past(now);
    }

    /// Sets the default lag of reads, which is not saved.
    pub(super) fn set_max_lag(&self, max_lag: Duration) {
        let mut core = self.lock();
        core.settle();
        let now = core.clock.now();
        core.sim.set_max_lag(now, max_lag);
    }

    pub(super) fn max_lag(&self) -> Duration {
        self.lock().sim.max_lag()
    }

    pub(super) fn release(&self, volume: &str, instance: Option<&str>) -> Result<(), Fault> {
        let mut core = self.lock();
        core.settle();
        let now = core.clock.now();
        core.sim.release(now, volume, instance)?;
        let (volume, instance) = (volume.to_owned(), instance.map(str::to_owned));
        core.write(now, Input::Release { now, volume, instance });
        self.changed.notify_one();
        Ok(())
    }

    pub(super) fn heal(&self, volume: &str) -> Result<(), Fault> {
        let mut core = self.lock();
        core.settle();
        let now = core.clock.now();
        core.sim.heal_device(volume)?;
        core.write(now, Input::Heal { volume: volume.to_owned() });
        core.start_effects(now);
        self.changed.notify_one();
        Ok(())
    }

    /// Returns all objects, or an empty view once the engine has ended.
    pub(super) fn view(&self) -> Option<StateView> {
        let mut core = self.lock();
        if core.ended {
            return None;
        }
        core.settle();
        if core.has_plane {
            self.changed.notify_one();
        }
        Some(core.sim.view(core.clock.now()))
    }
}

impl Inner {
    fn apply(&mut self, call: Call, key_refused: bool, injection: FaultInjection) -> Applied {
        self.settle();
        let now = self.clock.now();
        let (revision, mark) = (self.sim.revision(), self.sim.mark());
        let noted = self.store.is_some().then(|| call.clone());
        let result = self.sim.apply(now, call, &injection);
        if let Some(call) = noted
            && (revision, mark) != (self.sim.revision(), self.sim.mark())
        {
            self.write(now, Input::Call { now, call, injection, mark: self.sim.mark() });
        }
        if key_refused && let Ok(reply) = &result {
            let volumes = reply.new_volumes();
            self.sim.refuse_key(&volumes);
            self.write(now, Input::KeyRefused { volumes });
        }
        let effects = self.sim.take_effects();
        match result {
            Ok(reply) if self.has_plane && effects.iter().any(Effect::holds_reply) => {
                let (answer, later) = oneshot::channel();
                let mut held = Some(HeldReply { reply, answer });
                for effect in effects {
                    let held = if effect.holds_reply() { held.take() } else { None };
                    self.work.push(Work { effect, held });
                }
                Applied::Later(later)
            }
            result => {
                effects.into_iter().for_each(|effect| self.begin(now, effect));
                Applied::Now(result)
            }
        }
    }

    /// Applies the elapsed time and starts due work, until nothing changes.
    pub(super) fn settle(&mut self) {
        let now = self.clock.now();
        if self.sim.is_settled(now) {
            self.settled_at = now;
            return;
        }
        // Apply each change at the time when it was due, however long ago the last access was.
        while let Some(due) = self.sim.next_due(self.settled_at).filter(|due| *due < now) {
            self.settle_at(due);
            self.settled_at = due;
        }
        self.settle_at(now);
        self.settled_at = now;
    }

    fn settle_at(&mut self, now: SystemTime) {
        loop {
            let (revision, mark) = (self.sim.revision(), self.sim.mark());
            self.sim.advance(now);
            if (revision, mark) != (self.sim.revision(), self.sim.mark()) {
                self.write(now, Input::Advance { now, mark: self.sim.mark() });
            }
            if !self.start_effects(now) {
                return;
            }
        }
    }

    /// Starts the pending effects. Returns false if no effect is pending.
    fn start_effects(&mut self, now: SystemTime) -> bool {
        let effects = self.sim.take_effects();
        let any = !effects.is_empty();
        effects.into_iter().for_each(|effect| self.begin(now, effect));
        any
    }

    fn begin(&mut self, now: SystemTime, effect: Effect) {
        if self.has_plane {
            self.work.push(Work { effect, held: None });
        } else {
            self.finish_at(now, &effect, &Outcome::Done(None));
        }
    }

    pub(super) fn finish(&mut self, effect: &Effect, outcome: &Outcome) {
        self.finish_at(self.clock.now(), effect, outcome);
    }

    fn finish_at(&mut self, now: SystemTime, effect: &Effect, outcome: &Outcome) {
        self.sim.finish(now, effect, outcome);
        if self.store.is_some() {
            self.write(now, Input::Finish { now, effect: effect.clone(), outcome: outcome.clone() });
        }
    }

    pub(super) fn next_due(&self) -> Option<tokio::time::Instant> {
        let due: Option<SystemTime> = self.sim.next_due(self.clock.now());
        due.map(|at| self.clock.instant(at))
    }

    fn write(&mut self, now: SystemTime, input: Input) {
        if let Some(store) = &mut self.store {
            store.write(now, &input, &self.sim);
        }
    }

    /// Returns the state directory and the final state to save there.
    pub(super) fn take_store(&mut self) -> Option<(Store, Sim, SystemTime)> {
        let store = self.store.take()?;
        Some((store, self.sim.clone(), self.clock.now()))
    }
}
