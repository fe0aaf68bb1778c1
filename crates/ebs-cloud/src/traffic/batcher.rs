//! Batches the describes of one kind of object: one call covers all subscribers.
//!
//! A subscriber gets an observation from each call that was sent *after* it subscribed. A task of the batcher, the poll
//! loop, makes the calls. Dropping the batcher aborts the loop, which is safe because the loop only reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::convert::Infallible;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, MAX_FILTER_VALUES};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use super::bisect::{self, ResultsByKey};
use super::client::{Ec2Handle, RateLimited};
use super::pages;
use super::queries::{
    DescribeQuery, InstancesById, Modifications, SnapshotsById, SnapshotsByName, Statuses, VolumesById, VolumesByName,
};
use super::schedule::{Grouping, NextCall, PollSchedule, PollTimes};
use crate::timeouts::DESCRIBE_TIMEOUT;

/// How many unread observations the batcher keeps for a subscriber. It drops further ones.
const OBSERVATION_BUFFER: usize = 4;
const RESTART_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(crate) struct Observation<T> {
    /// When the batcher sent the call, which is after the subscription began.
    pub(crate) sent: Instant,
    /// All objects that EC2 lists for the key. Empty if EC2 lists none, or reports the key as missing or malformed.
    pub(crate) result: ebs_ec2::Result<Vec<T>>,
}

struct State<Q: DescribeQuery> {
    schedule: PollSchedule<Q::Key>,
    senders: BTreeMap<u64, mpsc::Sender<Observation<Q::Item>>>,
}

struct Shared<Q: DescribeQuery, E> {
    ec2: Arc<RateLimited<E>>,
    state: Mutex<State<Q>>,
    changed: Notify,
}

/// Batches describe calls of one kind. Without batching, each subscriber gets calls of its own.
pub(crate) struct DescribeBatcher<Q: DescribeQuery, E> {
    shared: Arc<Shared<Q, E>>,
    worker: Mutex<JoinSet<()>>,
}

impl<Q: DescribeQuery, E> fmt::Debug for DescribeBatcher<Q, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescribeBatcher").field("waiting", &self.shared.state().senders.len()).finish_non_exhaustive()
    }
}

impl<Q: DescribeQuery, E: Ec2> DescribeBatcher<Q, E> {
    pub(super) fn new(ec2: Arc<RateLimited<E>>, batching: bool) -> Self {
        let grouping = if batching { Grouping::Batched(MAX_FILTER_VALUES) } else { Grouping::Single };
        let state = State { schedule: PollSchedule::new(grouping, Instant::now()), senders: BTreeMap::new() };
        let shared = Shared { ec2, state: Mutex::new(state), changed: Notify::new() };
        Self { shared: Arc::new(shared), worker: Mutex::default() }
    }

    /// Subscribes to the key until the subscription is dropped. Call it inside a tokio runtime. The subscriber also
    /// gets errors as observations: a throttle, a lost answer, or a refusal that names the key or affects all keys.
    pub(crate) fn subscribe(&self, key: Q::Key, times: PollTimes) -> Subscription<Q, E> {
        let (sender, observations) = mpsc::channel(OBSERVATION_BUFFER);
        let mut state = self.shared.state();
        let id = state.schedule.add(key, times);
        state.senders.insert(id, sender);
        drop(state);
        self.shared.changed.notify_one();
        let mut worker = self.worker.lock().unwrap_or_else(PoisonError::into_inner);
        if worker.is_empty() {
            let shared = Arc::clone(&self.shared);
            worker.spawn(restarting(move || poll_loop(Arc::clone(&shared))));
        }
        Subscription { shared: Arc::clone(&self.shared), id, observations }
    }
}

#[derive(Debug)]
pub(crate) struct DescribeBatchers<E> {
    pub(crate) volumes: DescribeBatcher<VolumesById, E>,
    pub(crate) volume_names: DescribeBatcher<VolumesByName, E>,
    pub(crate) modifications: DescribeBatcher<Modifications, E>,
    pub(crate) statuses: DescribeBatcher<Statuses, E>,
    pub(crate) instances: DescribeBatcher<InstancesById, E>,
    pub(crate) snapshots: DescribeBatcher<SnapshotsById, E>,
    pub(crate) snapshot_names: DescribeBatcher<SnapshotsByName, E>,
}

impl<E: Ec2> DescribeBatchers<E> {
    pub(crate) fn new(ec2: &Arc<RateLimited<E>>, batching: bool) -> Self {
        Self {
            volumes: DescribeBatcher::new(Arc::clone(ec2), batching),
            volume_names: DescribeBatcher::new(Arc::clone(ec2), batching),
            modifications: DescribeBatcher::new(Arc::clone(ec2), batching),
            statuses: DescribeBatcher::new(Arc::clone(ec2), batching),
            instances: DescribeBatcher::new(Arc::clone(ec2), batching),
            snapshots: DescribeBatcher::new(Arc::clone(ec2), batching),
            snapshot_names: DescribeBatcher::new(Arc::clone(ec2), batching),
        }
    }
}

/// A subscription to one key. Dropping it does not affect a call in flight for other subscribers.
pub(crate) struct Subscription<Q: DescribeQuery, E> {
    shared: Arc<Shared<Q, E>>,
    id: u64,
    observations: mpsc::Receiver<Observation<Q::Item>>,
}

impl<Q: DescribeQuery, E> Subscription<Q, E> {
    /// Waits for the next observation without a limit. Cancellation: dropping the future loses no observation.
    pub(crate) async fn next(&mut self) -> Observation<Q::Item> {
        match self.observations.recv().await {
            Some(observation) => observation,
            // Unreachable: the batcher keeps the sender until the subscription is dropped.
            None => std::future::pending().await,
        }
    }
}

impl<Q: DescribeQuery, E> Drop for Subscription<Q, E> {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        state.schedule.remove(self.id);
        state.senders.remove(&self.id);
    }
}

impl<Q: DescribeQuery, E> Shared<Q, E> {
    fn state(&self) -> MutexGuard<'_, State<Q>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn rate(&self) -> f64 {
        self.ec2.rate(Q::BUCKET)
    }

    /// Delivers the result of a call to one subscriber, unless the subscriber already has a later result.
    fn deliver(&self, id: u64, sent: Instant, result: ebs_ec2::Result<Vec<Q::Item>>) {
        let mut state = self.state();
        if state.schedule.finish(id, sent)
            && let Some(sender) = state.senders.get(&id)
        {
            // If the buffer is full, drop this observation: the next call delivers another one.
            let _full = sender.try_send(Observation { sent, result });
        }
    }
}

/// Runs the work forever. Restarts it after a panic, so that existing subscribers still get observations.
async fn restarting<F>(mut work: impl FnMut() -> F + Send)
where
    F: Future<Output = Infallible> + Send + 'static,
{
    loop {
        let mut task = JoinSet::new();
        task.spawn(work());
        let ended = task.join_next().await;
        tracing::error!(?ended, "describe task stopped, restarting it for the waiting callers");
        sleep(RESTART_DELAY).await;
    }
}

/// Makes the planned calls. Selects a call's subscribers only once it has a token, so that the call includes new
/// subscribers.
async fn poll_loop<Q: DescribeQuery, E: Ec2>(shared: Arc<Shared<Q, E>>) -> Infallible {
    let mut calls = JoinSet::new();
    let mut in_flight: HashMap<tokio::task::Id, Instant> = HashMap::new();
    loop {
        let next = {
            let state = shared.state();
            let mut sent: Vec<Instant> = in_flight.values().copied().collect();
            sent.sort();
            state.schedule.next_call(Instant::now(), state.schedule.spacing(shared.rate()), &sent)
        };
        let (wake, is_call) = match next {
            NextCall::At(at) => (at, true),
            NextCall::Idle => (Instant::now(), false),
        };
        tokio::select! {
            () = sleep_until(wake), if is_call => {
                if let Some(ec2) = shared.ec2.for_awaited_read(DESCRIBE_TIMEOUT).acquired(Q::BUCKET).await
                    && let Some(batch) = Batch::start(&shared)
                {
                    let sent = batch.sent;
                    let call = calls.spawn(run_batch(ec2, batch));
                    in_flight.insert(call.id(), sent);
                }
            }
            () = shared.changed.notified() => {}
            Some(ended) = calls.join_next_with_id(), if !calls.is_empty() => {
                let id = match ended { Ok((id, ())) => id, Err(broken) => broken.id() };
                in_flight.remove(&id);
            }
        }
    }
}

async fn run_batch<Q: DescribeQuery, E: Ec2>(ec2: Ec2Handle<E>, batch: Batch<Q, E>) {
    let keys: BTreeSet<Q::Key> = batch.subscribers.iter().map(|(_, key)| key.clone()).collect();
    let ec2 = &ec2;
    let asked = bisect::query::<Q, _>(keys.into_iter().collect(), |keys| all_pages::<Q, E>(ec2, keys));
    if let Ok(answers) = timeout(DESCRIBE_TIMEOUT, asked).await {
        batch.complete(&answers);
    }
}

async fn all_pages<Q: DescribeQuery, E: Ec2>(ec2: &Ec2Handle<E>, keys: Vec<Q::Key>) -> ebs_ec2::Result<Vec<Q::Item>> {
    let keys = keys.as_slice();
    pages::all(|page| async move { Q::page(ec2, keys, &page).await }).await
}

/// A call in flight and its subscribers, which get an observation even if the batch is dropped without an answer.
struct Batch<Q: DescribeQuery, E> {
    shared: Arc<Shared<Q, E>>,
    subscribers: Vec<(u64, Q::Key)>,
    sent: Instant,
}

impl<Q: DescribeQuery, E> Batch<Q, E> {
    /// Selects the subscribers that are due. Returns `None` if all of them have left.
    fn start(shared: &Arc<Shared<Q, E>>) -> Option<Self> {
        let sent = Instant::now();
        let subscribers = {
            let mut state = shared.state();
            let spacing = state.schedule.spacing(shared.rate());
            state.schedule.start_batch(sent, spacing)
        };
        (!subscribers.is_empty()).then(|| Self { shared: Arc::clone(shared), subscribers, sent })
    }

    fn complete(mut self, answers: &ResultsByKey<Q>) {
        for (id, key) in std::mem::take(&mut self.subscribers) {
            let result = answers.get(&key).cloned().unwrap_or_else(|| Err(unanswered::<Q>()));
            self.shared.deliver(id, self.sent, result);
        }
    }
}

impl<Q: DescribeQuery, E> Drop for Batch<Q, E> {
    fn drop(&mut self) {
        for (id, _) in std::mem::take(&mut self.subscribers) {
            self.shared.deliver(id, self.sent, Err(unanswered::<Q>()));
        }
    }
}

fn unanswered<Q: DescribeQuery>() -> Ec2Error {
    Ec2Error::new(Q::BUCKET.action(), ErrorClass::Ambiguous, "no answer within the time limit of a describe")
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn poll_loop_restarts_after_a_panic() {
        let begun = Arc::new(AtomicU32::new(0));
        let work = || {
            let nth = begun.fetch_add(1, Ordering::SeqCst);
            async move {
                assert!(nth >= 2, "a planted panic");
                std::future::pending().await
            }
        };
        let ended = timeout(Duration::from_secs(60), restarting(work)).await;
        assert!(ended.is_err(), "it runs forever");
        assert_eq!(begun.load(Ordering::SeqCst), 3);
    }
}
