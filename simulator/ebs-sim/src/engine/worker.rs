//! The task that passes effects to the data plane and reports the results. Only engines with devices have one.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, oneshot};
use tokio::task::{Id, JoinError, JoinSet};

use crate::plane::Plane;
use crate::state::Outcome;

use super::blocking;
use super::core::{Core, Work};

/// How many times the worker tries to remove a device, which a disk probe or a new child process may hold briefly.
const TAKE_DOWN_TRIES: usize = 10;
const TAKE_DOWN_PAUSE: Duration = Duration::from_millis(100);

pub(super) type Stopped = Result<(), String>;

pub(super) struct Worker {
    core: Core,
    plane: Arc<Plane>,
    tasks: JoinSet<Outcome>,
    running: HashMap<Id, Work>,
}

impl Worker {
    pub(super) fn new(core: Core, plane: Arc<Plane>) -> Self {
        Self { core, plane, tasks: JoinSet::new(), running: HashMap::new() }
    }

    /// Runs until a handle stops the worker, or until all handles are dropped.
    pub(super) async fn run(mut self, mut stop: mpsc::Receiver<oneshot::Sender<Stopped>>) {
        let changed = Arc::clone(&self.core.changed);
        loop {
            let due = self.begin_all();
            let timer = async {
                match due {
                    Some(due) => tokio::time::sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                asked = stop.recv() => {
                    if let Some(answer) = asked {
                        // The requester may have stopped waiting for the answer.
                        let _gone = answer.send(self.stop().await);
                    }
                    return;
                }
                () = changed.notified() => {}
                Some(ended) = self.tasks.join_next_with_id() => self.process_ended(ended),
                () = timer => {}
            }
        }
    }

    /// Starts all available work. Returns the time at which more work may become available.
    fn begin_all(&mut self) -> Option<tokio::time::Instant> {
        let (work, due) = {
            let mut core = self.core.lock();
            core.settle();
            (std::mem::take(&mut core.work), core.next_due())
        };
        for work in work {
            let (plane, effect) = (Arc::clone(&self.plane), work.effect.clone());
            let task = self.tasks.spawn_blocking(move || plane.carry_out(&effect));
            self.running.insert(task.id(), work);
        }
        due
    }

    fn process_ended(&mut self, ended: Result<(Id, Outcome), JoinError>) {
        let (id, outcome) = match ended {
            Ok(ended) => ended,
            Err(failed) => (failed.id(), Outcome::Failed(format!("the simulator failed: {failed}"))),
        };
        let Some(Work { effect, held }) = self.running.remove(&id) else { return };
        if let Outcome::Failed(reason) = &outcome {
            tracing::error!(?effect, reason, "data plane task failed");
        }
        self.core.lock().finish(&effect, &outcome);
        if let Some(held) = held {
            // The client may have disconnected, which does not undo its call.
            let _gone = held.answer.send(Ok(held.reply));
        }
    }

    async fn stop(&mut self) -> Stopped {
        // Complete the effects requested so far. The next run starts the effects that follow from them.
        self.begin_all();
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.process_ended(ended);
        }
        let mut taken_down = self.take_down().await;
        for _ in 0..TAKE_DOWN_TRIES {
            if taken_down.is_ok() {
                break;
            }
            tokio::time::sleep(TAKE_DOWN_PAUSE).await;
            taken_down = self.take_down().await;
        }
        taken_down
    }

    async fn take_down(&self) -> Stopped {
        let plane = Arc::clone(&self.plane);
        blocking(move || plane.take_down()).await
    }
}
