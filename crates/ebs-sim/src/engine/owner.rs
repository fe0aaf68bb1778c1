//! The one task that owns the state.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinSet};

use crate::api::{Call, Fault, Reply};
use crate::faults::Twist;
use crate::plane::Plane;
use crate::state::{Effect, Outcome, Sim};

use super::clock::Clock;
use super::store::{Store, write_whole};
use super::{EngineError, StateView, TimingOverride, blocking};

/// Calls that share one save.
const BATCH: usize = 64;
/// A device may be in use for a moment only, by a prober or by a child that is just being started.
const TAKE_DOWN_TRIES: usize = 10;
const TAKE_DOWN_PAUSE: Duration = Duration::from_millis(100);

pub(super) type Answer = oneshot::Sender<Result<Reply, Fault>>;

/// What handles ask of the owner.
#[derive(Debug)]
pub(super) enum Command {
    Call { call: Box<Call>, twist: Twist, reply: Answer },
    View(oneshot::Sender<StateView>),
    SetTiming { timing: TimingOverride, reply: oneshot::Sender<()> },
    Shutdown(oneshot::Sender<Result<(), EngineError>>),
}

/// An effect that is being carried out, with the reply that waits for it.
struct Running {
    effect: Effect,
    held: Option<(Reply, Answer)>,
}

pub(super) struct Owner {
    sim: Sim,
    clock: Clock,
    plane: Arc<Plane>,
    store: Option<Store>,
    work: JoinSet<Outcome>,
    running: HashMap<Id, Running>,
    /// Replies that leave after the next save.
    outbox: Vec<(Answer, Result<Reply, Fault>)>,
    saved: u64,
}

impl Owner {
    pub(super) fn new(sim: Sim, clock: Clock, plane: Arc<Plane>, store: Option<Store>) -> Self {
        let (work, running, outbox) = (JoinSet::new(), HashMap::new(), Vec::new());
        Self { sim, clock, plane, store, work, running, outbox, saved: 0 }
    }

    /// Runs until the last handle is gone or one asks to stop.
    pub(super) async fn run(mut self, mut inbox: mpsc::Receiver<Command>) {
        let mut batch = Vec::new();
        loop {
            self.settle();
            self.save().await;
            let due = self.sim.next_due(self.clock.now()).map(|at| self.clock.instant(at));
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                received = inbox.recv_many(&mut batch, BATCH) => {
                    if received == 0 {
                        break;
                    }
                    for command in batch.drain(..) {
                        if let Command::Shutdown(reply) = command {
                            let _gone = reply.send(self.stop().await);
                            return;
                        }
                        self.obey(command);
                    }
                }
                Some(ended) = self.work.join_next_with_id() => self.take_in(ended),
                () = timer => {}
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Call { call, twist, reply } => self.call(*call, twist, reply),
            Command::View(reply) => {
                self.settle();
                // Whoever asked may have left: nothing is lost.
                let _gone = reply.send(self.sim.view(self.clock.now()));
            }
            Command::SetTiming { timing, reply } => {
                self.sim.set_timing(timing);
                let _gone = reply.send(());
            }
            Command::Shutdown(_) => {}
        }
    }

    fn call(&mut self, call: Call, _twist: Twist, reply: Answer) {
        self.settle();
        let result = self.sim.apply(self.clock.now(), call);
        let effects = self.sim.take_effects();
        match result {
            Ok(answer) if !self.plane.is_none() && effects.iter().any(Effect::holds_reply) => {
                let mut held = Some((answer, reply));
                for effect in effects {
                    let held = if effect.holds_reply() { held.take() } else { None };
                    self.begin(effect, held);
                }
            }
            result => {
                effects.into_iter().for_each(|effect| self.begin(effect, None));
                self.outbox.push((reply, result));
            }
        }
    }

    /// Lets time pass and starts what has to be done, until nothing changes any more.
    fn settle(&mut self) {
        loop {
            self.sim.advance(self.clock.now());
            let effects = self.sim.take_effects();
            if effects.is_empty() {
                return;
            }
            effects.into_iter().for_each(|effect| self.begin(effect, None));
        }
    }

    fn begin(&mut self, effect: Effect, held: Option<(Reply, Answer)>) {
        if self.plane.is_none() {
            self.sim.finish(self.clock.now(), &effect, &Outcome::Done(None));
            return;
        }
        let plane = Arc::clone(&self.plane);
        let task = self.work.spawn_blocking({
            let effect = effect.clone();
            move || plane.carry_out(&effect)
        });
        self.running.insert(task.id(), Running { effect, held });
    }

    fn take_in(&mut self, ended: Result<(Id, Outcome), tokio::task::JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(failed) => (failed.id(), Outcome::Failed(format!("the simulator failed: {failed}"))),
        };
        let Some(Running { effect, held }) = self.running.remove(&id) else { return };
        if let Outcome::Failed(reason) = &outcome {
            tracing::error!(?effect, reason, "work on the data plane failed");
        }
        self.sim.finish(self.clock.now(), &effect, &outcome);
        if let Some((reply, answer)) = held {
            self.outbox.push((answer, Ok(reply)));
        }
    }

    /// Saves what has changed, then lets the replies go.
    async fn save(&mut self) {
        let revision = self.sim.revision();
        if let Some(store) = &self.store
            && revision != self.saved
        {
            let (path, content) = (store.state_file(), self.sim.save());
            match blocking(move || write_whole(&path, &content)).await {
                Ok(()) => self.saved = revision,
                Err(error) => tracing::error!(%error, "the state could not be saved: a restart would forget it"),
            }
        }
        for (reply, result) in self.outbox.drain(..) {
            // Whoever asked may have left: the call is carried out all the same.
            let _gone = reply.send(result);
        }
    }

    async fn stop(&mut self) -> Result<(), EngineError> {
        // Work under way ends by itself, and what follows from it is taken up by the next run.
        while let Some(ended) = self.work.join_next_with_id().await {
            self.take_in(ended);
        }
        self.save().await;
        let mut taken_down = self.take_down().await;
        for _ in 0..TAKE_DOWN_TRIES {
            if taken_down.is_ok() {
                break;
            }
            tokio::time::sleep(TAKE_DOWN_PAUSE).await;
            taken_down = self.take_down().await;
        }
        // Whoever asked may start another engine here as soon as they are told.
        self.store = None;
        taken_down.map_err(EngineError::Plane)
    }

    async fn take_down(&self) -> Result<(), String> {
        let plane = Arc::clone(&self.plane);
        blocking(move || plane.take_down()).await
    }
}
