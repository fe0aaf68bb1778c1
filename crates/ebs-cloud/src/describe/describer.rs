//! Describes an object once, or until a condition holds.
//!
//! A single describe fails after a few lost answers. A wait continues after throttles and lost answers, and also while
//! EC2 is unreachable if the operation has already changed something. A wait starts no mutation, so it continues for
//! the next attempt after all clients of its operation have left.
//!
//! `decide` receives only results of describes that were sent after the wait began, and the instant at which each was
//! sent. A result may still be 15 s older than that instant ([`timeouts::SETTLE`]).

use std::ops::ControlFlow::{self, Break, Continue};
use std::time::Duration;

use ebs_ec2::{
    Ec2, Ec2Error, ErrorClass, Instance, InstanceId, Modification, Snapshot, SnapshotId, Volume, VolumeId, VolumeStatus,
};
use tokio::time::{Instant, timeout_at};

use crate::error_map::map_error;
use crate::op_context::OpContext;
use crate::retry::ReadRetries;
use crate::timeouts::{self, DESCRIBE_TIMEOUT};
use crate::traffic::{
    DescribeBatcher, DescribeBatchers, DescribeQuery, Observation, PollTimes, Transition, TransitionTimes,
};
use crate::{CloudError, CloudErrorKind, Object, Result};

pub(crate) enum Verdict<T> {
    /// The condition holds.
    Done(T),
    /// The condition can never hold.
    Failed(CloudError),
    /// The condition does not hold yet: describe again.
    Waiting,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstPoll {
    /// Describe now, because the condition may hold already.
    Now,
    /// EC2 has just begun the transition. Describe after the shortest time that it usually takes.
    After(Transition),
}

struct Wait<'a> {
    op: &'a OpContext<'a>,
    first: FirstPoll,
}

#[derive(Debug)]
pub(crate) struct Describer<E> {
    batchers: DescribeBatchers<E>,
    transition_times: TransitionTimes,
}

impl<E: Ec2> Describer<E> {
    pub(crate) fn new(batchers: DescribeBatchers<E>) -> Self {
        Self { batchers, transition_times: TransitionTimes::default() }
    }

    /// Returns the volume in any state, or `None` if EC2 does not list it.
    pub(crate) async fn volume(&self, op: Option<&OpContext<'_>>, id: &VolumeId) -> Result<Option<Volume>> {
        Ok(describe_once(&self.batchers.volumes, &format!("describe volume {id}"), op, id.clone()).await?.pop())
    }

    /// Returns the volume's status, or `None` if EC2 does not list the volume.
    pub(crate) async fn volume_status(
        &self,
        op: Option<&OpContext<'_>>,
        id: &VolumeId,
    ) -> Result<Option<VolumeStatus>> {
        let step = format!("describe the status of volume {id}");
        Ok(describe_once(&self.batchers.statuses, &step, op, id.clone()).await?.pop())
    }

    pub(crate) async fn instance(&self, op: Option<&OpContext<'_>>, id: &InstanceId) -> Result<Instance> {
        let step = format!("describe instance {id}");
        let instance = describe_once(&self.batchers.instances, &step, op, id.clone()).await?.pop();
        instance.ok_or_else(|| CloudError::not_found(Object::Instance(id.clone())))
    }

    /// Returns the snapshot in any state, or `None` if EC2 does not list it.
    pub(crate) async fn snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>> {
        Ok(describe_once(&self.batchers.snapshots, &format!("describe snapshot {id}"), None, id.clone()).await?.pop())
    }

    /// Waits until `decide` returns a result. Calls `decide` with the volume, or with `None` while EC2 does not list
    /// the volume.
    pub(crate) async fn await_volume<T: Send>(
        &self,
        op: &OpContext<'_>,
        first: FirstPoll,
        id: &VolumeId,
        mut decide: impl FnMut(Option<Volume>, Instant) -> Verdict<T> + Send,
    ) -> Result<T> {
        let key = id.clone();
        self.wait(&self.batchers.volumes, Wait { op, first }, key, |mut found, sent| decide(found.pop(), sent)).await
    }

    /// Waits until `decide` returns a result. Passes it the volume's latest modification, or `None` if EC2 lists none.
    pub(crate) async fn await_modification<T: Send>(
        &self,
        op: &OpContext<'_>,
        first: FirstPoll,
        id: &VolumeId,
        mut decide: impl FnMut(Option<Modification>, Instant) -> Verdict<T> + Send,
    ) -> Result<T> {
        let key = id.clone();
        let latest = |found: Vec<Modification>| found.into_iter().max_by_key(|m| m.started);
        self.wait(&self.batchers.modifications, Wait { op, first }, key, |all, sent| decide(latest(all), sent)).await
    }

    pub(crate) async fn await_volumes<T: Send>(
        &self,
        op: &OpContext<'_>,
        name: &str,
        decide: impl FnMut(Vec<Volume>, Instant) -> Verdict<T> + Send,
    ) -> Result<T> {
        self.wait(&self.batchers.volume_names, Wait { op, first: FirstPoll::Now }, name.to_owned(), decide).await
    }

    pub(crate) async fn await_snapshots<T: Send>(
        &self,
        op: &OpContext<'_>,
        name: &str,
        decide: impl FnMut(Vec<Snapshot>, Instant) -> Verdict<T> + Send,
    ) -> Result<T> {
        self.wait(&self.batchers.snapshot_names, Wait { op, first: FirstPoll::Now }, name.to_owned(), decide).await
    }

    /// Waits until `decide` returns a result. Passes it the snapshot, or `None` while EC2 does not list the snapshot.
    pub(crate) async fn await_snapshot<T: Send>(
        &self,
        op: &OpContext<'_>,
        first: FirstPoll,
        id: &SnapshotId,
        mut decide: impl FnMut(Option<Snapshot>, Instant) -> Verdict<T> + Send,
    ) -> Result<T> {
        let key = id.clone();
        self.wait(&self.batchers.snapshots, Wait { op, first }, key, |mut found, sent| decide(found.pop(), sent)).await
    }

    async fn wait<Q: DescribeQuery, T: Send>(
        &self,
        batcher: &DescribeBatcher<Q, E>,
        wait: Wait<'_>,
        key: Q::Key,
        mut decide: impl FnMut(Vec<Q::Item>, Instant) -> Verdict<T> + Send,
    ) -> Result<T> {
        let Wait { op, first } = wait;
        let began = Instant::now();
        let last_describe = timeouts::describe_until(began, op.deadline);
        let poll = Poll { op: Some(op), times: self.poll_times(first, began), until: op.deadline.max(last_describe) };
        let (mut answered, mut not_done_at, mut last_error) = (false, None, None);
        poll.run(batcher, key, |observation| {
            answered |= observation.is_some();
            match observation {
                None => {}
                Some(Observation { sent, result: Ok(found) }) => match decide(found, sent) {
                    Verdict::Done(value) => {
                        self.record(first, not_done_at, sent - began);
                        return Break(Ok(value));
                    }
                    Verdict::Failed(error) => return Break(Err(error)),
                    Verdict::Waiting => (not_done_at, last_error) = (Some(sent - began), None),
                },
                Some(Observation { result: Err(e), .. }) if is_transient(op, e.class) => last_error = Some(e),
                Some(Observation { result: Err(e), .. }) => return Break(Err(describe_refused(op, e))),
            }
            let now = Instant::now();
            if now >= op.deadline && (answered || now >= last_describe) {
                return Break(Err(timed_out(op, now - began, last_error.take())));
            }
            Continue(if answered { op.deadline } else { op.deadline.max(last_describe) })
        })
        .await
    }

    fn poll_times(&self, first: FirstPoll, now: Instant) -> PollTimes {
        match first {
            FirstPoll::Now => PollTimes { first: now, back_off_from: now },
            FirstPoll::After(transition) => {
                let range = self.transition_times.typical(transition);
                PollTimes { first: now + range.from, back_off_from: now + range.to }
            }
        }
    }

    fn record(&self, first: FirstPoll, not_done_at: Option<Duration>, done_at: Duration) {
        if let FirstPoll::After(transition) = first {
            self.transition_times.record(transition, not_done_at, done_at);
        }
    }
}

/// A subscription to one key: when to describe, and until when to wait for the next observation.
struct Poll<'a> {
    op: Option<&'a OpContext<'a>>,
    times: PollTimes,
    until: Instant,
}

impl Poll<'_> {
    /// Passes each observation to `decide`, or `None` at the time limit, until `decide` breaks with a result. A
    /// `Continue` sets the next time limit. Ends at once if another operation replaces this one.
    async fn run<Q: DescribeQuery, E: Ec2, T>(
        mut self,
        batcher: &DescribeBatcher<Q, E>,
        key: Q::Key,
        mut decide: impl FnMut(Option<Observation<Q::Item>>) -> ControlFlow<Result<T>, Instant> + Send,
    ) -> Result<T> {
        let mut subscription = batcher.subscribe(key, self.times);
        loop {
            let next = timeout_at(self.until, subscription.next());
            let observation = match self.op {
                Some(op) => op.unless_superseded(next).await?,
                None => next.await,
            };
            match decide(observation.ok()) {
                Break(result) => return result,
                Continue(until) => self.until = until,
            }
        }
    }
}

/// Describes the key once. The limit is the operation's deadline, but at least 5 s and at most [`DESCRIBE_TIMEOUT`].
async fn describe_once<Q: DescribeQuery, E: Ec2>(
    batcher: &DescribeBatcher<Q, E>,
    step: &str,
    op: Option<&OpContext<'_>>,
    key: Q::Key,
) -> Result<Vec<Q::Item>> {
    let began = Instant::now();
    let until = op.map_or(began + DESCRIBE_TIMEOUT, |op| timeouts::describe_until(began, op.deadline));
    let (mut retries, mut last_error) = (ReadRetries::default(), None);
    let poll = Poll { op, times: PollTimes { first: began, back_off_from: began }, until };
    poll.run(batcher, key, |observation| match observation.map(|observation| observation.result) {
        Some(Ok(found)) => Break(Ok(found)),
        Some(Err(e)) if retries.permits(e.class) => {
            last_error = Some(e);
            Continue(until)
        }
        Some(Err(e)) => Break(Err(map_error(step, e))),
        None => Break(Err(match last_error.take() {
            Some(e) => map_error(step, e),
            None => {
                let waited = humantime::format_duration(until - began);
                CloudErrorKind::Unavailable.error(format!("{step}: EC2 gave no answer within {waited}"))
            }
        })),
    })
    .await
}

fn describe_refused(op: &OpContext<'_>, error: Ec2Error) -> CloudError {
    if !op.has_mutated() {
        return map_error(op, error);
    }
    let message = format!("{op}: EC2 accepted the request but does not permit the driver to describe its progress");
    CloudErrorKind::OutcomeUnknown.error(message).caused_by(error)
}

/// Returns true if a later describe can succeed. If EC2 is unreachable, an operation without a mutation fails at once.
fn is_transient(op: &OpContext<'_>, class: ErrorClass) -> bool {
    match class {
        ErrorClass::Throttled | ErrorClass::Ambiguous => true,
        ErrorClass::NotSent => op.has_mutated(),
        _ => false,
    }
}

fn timed_out(op: &OpContext<'_>, waited: Duration, last_error: Option<Ec2Error>) -> CloudError {
    let waited = humantime::format_duration(Duration::from_secs(waited.as_secs()));
    let message = format!("{op}: still in progress after {waited}; try again");
    CloudErrorKind::InProgress.error(message).caused_by(last_error)
}
