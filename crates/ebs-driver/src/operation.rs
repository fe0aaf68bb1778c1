//! Operations: mutations that outlive the request that started them.
//!
//! A mutating RPC runs in its own task, which holds its [`Key`] until the work has ended. When the client disconnects,
//! or its deadline or the RPC's timeout passes, only the wait ends. The work checks [`Waiters::any`] before each
//! mutation. Work without mutations runs to its end, so that a repeated call of an impatient client finds it done.
//!
//! - A request with the same key and an equal plan ([`Content`]) *joins* the operation and shares its result.
//! - A request with another plan, or with a key that excludes the operation's key, gets [`OperationError::Busy`] while
//!   a caller waits for the operation. Otherwise [`Operations::run`] asks the operation to end
//!   ([`Waiters::superseded`]), which it does after its current call.
//! - A panic frees the key. Every waiting caller gets [`OperationError::OutcomeUnknown`].
//! - A finished result is never replayed: the next call runs again.
//!
//! Decision: `docs/dev/decisions/0002-run-each-change-as-an-operation.md`.

mod drain;
mod key;

use std::any::Any;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{Successor, Waiter, Waiters};
use futures_util::FutureExt;
use futures_util::future::Shared;
use tokio::sync::oneshot;
use tokio::time::Instant;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use crate::status::{IntoStatus, Meaning, to_status};

pub use key::Key;

/// Why an operation returned no result to this caller.
#[derive(Debug, thiserror::Error)]
pub enum OperationError<E> {
    /// Another operation holds this key, which equals or excludes the caller's key. The call has started nothing.
    #[error("another request for {0} with different content is still running")]
    Busy(Key),
    /// The wait has timed out. The work continues, and a retry joins it.
    #[error("the operation for {key} is still running after {}", humantime::format_duration(*.waited))]
    StillRunning { key: Key, waited: Duration },
    /// The work panicked, so its effect is unknown.
    #[error("the operation for {key} ended unexpectedly and its outcome is unknown ({cause})")]
    OutcomeUnknown { key: Key, cause: String },
    #[error("the driver is shutting down and does not start the operation for {0}")]
    ShuttingDown(Key),
    /// The work failed with this error, which all waiting callers share.
    #[error(transparent)]
    Failed(Arc<E>),
}

impl<E: IntoStatus + 'static> From<OperationError<E>> for tonic::Status {
    fn from(error: OperationError<E>) -> Self {
        to_status(&error)
    }
}

impl<E: IntoStatus + 'static> IntoStatus for OperationError<E> {
    fn meaning(&self) -> Meaning {
        match self {
            Self::Busy(_) | Self::StillRunning { .. } | Self::OutcomeUnknown { .. } => Meaning::InProgress,
            Self::ShuttingDown(_) => Meaning::Unavailable,
            Self::Failed(error) => error.meaning(),
        }
    }

    fn next_step(&self) -> Option<String> {
        let step = match self {
            Self::Busy(_) => "call again when that operation has ended",
            Self::StillRunning { .. } => "call again with the same request to continue waiting",
            Self::OutcomeUnknown { .. } => {
                "call again with the same request: the driver checks the outcome before it retries"
            }
            Self::ShuttingDown(_) => "call again after the driver has restarted",
            Self::Failed(error) => return error.next_step(),
        };
        Some(step.to_owned())
    }
}

/// The result of an operation for all its waiters, or the text of a panic.
type Outcome<T, E> = Result<Result<T, Arc<E>>, String>;

/// A receiver for each waiter. Waiters wake in the order of their arrival, so that a run on paused time is repeatable.
type Receiver<T, E> = Shared<oneshot::Receiver<Outcome<T, E>>>;

/// Closes when the operation ends, which drops the sender. Never receives a value.
type Ended = Shared<oneshot::Receiver<Infallible>>;

/// The content of a request, without secrets. Requests with the same key and equal content run as one operation.
pub trait Content: Send + 'static {
    /// Returns true when the running operation also fulfils the other request.
    fn same(&self, other: &Self) -> bool;

    /// Returns true when the other request may join. If it may, content that gathers requests adds the request.
    fn takes_in(&self, other: &Self) -> bool {
        self.same(other)
    }
}

impl<P: PartialEq + Send + 'static> Content for P {
    fn same(&self, other: &Self) -> bool {
        self == other
    }
}

enum Entry<T, E> {
    Wait(Receiver<T, E>, Waiter),
    /// An operation that holds this key has waiting callers.
    Busy(Key),
    /// No caller waits for the other operation. This channel closes when that operation ends.
    Ending(Ended, Successor),
    Closing,
}

/// All running operations of one service. Clones share the same operations.
#[derive(Clone, Default)]
pub struct Operations {
    slots: Arc<Mutex<Slots>>,
    tasks: TaskTracker,
    never_takes_over: bool,
}

impl Operations {
    /// Creates an empty table of operations.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a handle to the same operations. The handle returns `Busy` instead of asking another operation to end.
    pub fn without_takeover(&self) -> Self {
        Self { never_takes_over: true, ..self.clone() }
    }

    /// Runs `work` under `key`, or joins an operation with an equal `plan`. Waits at most `timeout` for the result.
    ///
    /// If a different operation holds the key and no caller waits for it, asks it to end, waits for its end, and then runs. No
    /// call can join the operation that was asked to end.
    ///
    /// Polls the future of `work` to its end, even when the caller leaves. If this call joins work that is about to
    /// stop for lack of callers, runs the work again, once.
    ///
    /// Cancellation: dropping the returned future only removes this caller from the operation's waiters.
    ///
    /// # Errors
    /// Only `Failed` comes from the work itself. `StillRunning`: this operation has not returned, or the other one has
    /// not ended, within `timeout`.
    pub async fn run<P, T, E, F, W>(
        &self,
        key: Key,
        plan: P,
        timeout: Duration,
        work: W,
    ) -> Result<T, OperationError<E>>
    where
        P: Content + Clone,
        T: Clone + Send + Sync + 'static,
        E: IntoStatus + Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        W: FnOnce(Waiters) -> F + Clone + Send + 'static,
    {
        let start = Instant::now();
        let mut was_abandoned = false;
        loop {
            let left = timeout.saturating_sub(start.elapsed());
            match self.enter(&key, plan.clone(), work.clone()) {
                Entry::Wait(outcome, waiter) => match wait((&key, timeout), outcome, waiter, left).await {
                    Err(OperationError::Failed(error)) if error.is_abandoned() && !was_abandoned => {
                        was_abandoned = true
                    }
                    answer => return answer,
                },
                Entry::Busy(held) => return Err(OperationError::Busy(held)),
                Entry::Closing => return Err(OperationError::ShuttingDown(key)),
                Entry::Ending(ended, _successor) => {
                    if tokio::time::timeout(left, ended).await.is_err() {
                        return Err(OperationError::StillRunning { key, waited: timeout });
                    }
                }
            }
        }
    }

    /// Returns the keys of the running operations, sorted.
    pub fn running(&self) -> Vec<Key> {
        let mut keys: Vec<Key> = self.slots().running.keys().cloned().collect();
        keys.sort();
        keys
    }

    /// Returns the kind of each running operation, by [`Key::kind`], and how long it has run, unsorted.
    pub fn ages(&self) -> Vec<(&'static str, Duration)> {
        self.slots().running.iter().map(|(key, running)| (key.kind(), running.began.elapsed())).collect()
    }

    fn slots(&self) -> MutexGuard<'_, Slots> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Joins or starts an operation. Never waits.
    fn enter<P, T, E, F, W>(&self, key: &Key, plan: P, work: W) -> Entry<T, E>
    where
        P: Content,
        T: Clone + Send + Sync + 'static,
        E: Send + Sync + 'static,
        F: Future<Output = Result<T, E>> + Send + 'static,
        W: FnOnce(Waiters) -> F + Send + 'static,
    {
        let mut slots = self.slots();
        if let Some(running) = slots.running.get(key) {
            let outcome = running.outcome.downcast_ref::<Receiver<T, E>>();
            return match outcome {
                Some(outcome) if !running.waiters.is_superseded() && running.plan.takes_other_in(&plan) => {
                    Entry::Wait(outcome.clone(), running.waiters.join())
                }
                _ if !self.never_takes_over && !running.waiters.any() && !running.plan.is_same(&plan) => {
                    Entry::Ending(running.ended.clone(), running.waiters.supersede())
                }
                _ => Entry::Busy(key.clone()),
            };
        }
        if let Some(other) = excluded(&slots, key, !self.never_takes_over) {
            return other;
        }
        if slots.is_closing {
            return Entry::Closing;
        }
        let waiters = Waiters::default();
        let waiter = waiters.join();
        let (send, outcome) = oneshot::channel();
        let (alive, ended) = oneshot::channel();
        let outcome = outcome.shared();
        let running = Running::new(Box::new(plan), waiters.clone(), Box::new(outcome.clone()), ended.shared());
        slots.running.insert(key.clone(), running);
        drop(slots);
        let release = Release { slots: Arc::clone(&self.slots), key: key.clone(), _alive: alive };
        let future = async move { work(waiters).await };
        let task = async move {
            let release = release;
            let ended = AssertUnwindSafe(future).catch_unwind().await;
            let ended = ended.map(|result| result.map_err(Arc::new)).map_err(|panic| panic_text(panic.as_ref()));
            // Free the key before any caller receives the result, so that an immediate next call is not Busy.
            drop(release);
            // The send fails if no caller is waiting.
            drop(send.send(ended));
        };
        self.tasks.spawn(task.in_current_span());
        Entry::Wait(outcome, waiter)
    }
}

fn excluded<T, E>(slots: &Slots, key: &Key, takes_over: bool) -> Option<Entry<T, E>> {
    let mut in_the_way: Vec<_> = slots.excluded_by(key).collect();
    // Prefer an operation with callers, then the lowest key, so that the result does not depend on the hash order.
    in_the_way.sort_by_key(|(held, running)| (!running.waiters.any(), (*held).clone()));
    let (held, running) = in_the_way.first()?;
    Some(match takes_over && !running.waiters.any() {
        true => Entry::Ending(running.ended.clone(), running.waiters.supersede()),
        false => Entry::Busy((*held).clone()),
    })
}

/// Frees the key when the task ends for any reason.
struct Release {
    slots: Arc<Mutex<Slots>>,
    key: Key,
    /// Declared last, so that it is dropped last: `ended` closes after the key is free.
    _alive: oneshot::Sender<Infallible>,
}

impl Drop for Release {
    fn drop(&mut self) {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner).running.remove(&self.key);
    }
}

/// Waits for the outcome, for at most `left`. The waiter leaves when this future ends or is dropped.
async fn wait<T: Clone, E>(
    (key, timeout): (&Key, Duration),
    outcome: Receiver<T, E>,
    waiter: Waiter,
    left: Duration,
) -> Result<T, OperationError<E>> {
    let waited = tokio::time::timeout(left, outcome).await;
    drop(waiter);
    let key = key.clone();
    match waited {
        Err(_elapsed) => Err(OperationError::StillRunning { key, waited: timeout }),
        Ok(Err(_closed)) => Err(OperationError::OutcomeUnknown { key, cause: "its task was aborted".to_owned() }),
        Ok(Ok(Ok(result))) => result.map_err(OperationError::Failed),
        Ok(Ok(Err(cause))) => Err(OperationError::OutcomeUnknown { key, cause }),
    }
}

pub(crate) fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("internal error: {}", text.unwrap_or("a panic without a message"))
}

/// What an operation does, with its type erased. Plans of different types never compare equal.
trait AnyPlan: Send {
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

struct Running {
    plan: Box<dyn AnyPlan>,
    waiters: Waiters,
    /// The receiver of the operation's outcome, which only a caller with the right type can use.
    outcome: Box<dyn Any + Send>,
    /// Closes when the operation has ended and its key is free.
    ended: Ended,
    began: Instant,
}

impl Running {
    fn new(plan: Box<dyn AnyPlan>, waiters: Waiters, outcome: Box<dyn Any + Send>, ended: Ended) -> Self {
        Self { plan, waiters, outcome, ended, began: Instant::now() }
    }
}

#[derive(Default)]
struct Slots {
    running: HashMap<Key, Running>,
    is_closing: bool,
}

impl Slots {
    /// Returns, unsorted, the running operations that must not run at the same time as one with this key.
    fn excluded_by<'a>(&'a self, key: &'a Key) -> impl Iterator<Item = (&'a Key, &'a Running)> {
        self.running.iter().filter(|(running, _)| running.excludes(key))
    }

    fn supersede_unawaited(&self) -> Vec<Successor> {
        self.running.values().filter(|r| !r.waiters.any()).map(|r| r.waiters.supersede()).collect()
    }
}

#[cfg(test)]
mod tests;
