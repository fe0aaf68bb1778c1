//! Waiters: poll what EC2 says of an object until a condition holds.
//!
//! Callers say what they wait for and decide on what they see; how often EC2 is asked, and for how many objects at
//! once, is decided by the batchers. Throttles and lost answers do not end a wait, they only cost time; nor, once the
//! operation has changed something, does an EC2 that cannot be reached.
//! A wait starts no mutation, so it goes on when nobody waits for its operation any more: the next attempt joins it or
//! uses what it has learnt. It ends at once when another operation is to run in its place.
//! What `decide` sees was asked for after its wait began, at the instant that it is given: what a describe shows may be
//! 15 s older than that ([`bounds::SETTLE`]).

use std::sync::Arc;
use std::time::Duration;

use ebs_calls::{
    DescribeBatcher, DescribeBatchers, DescribeQuery, Observation, PollTimes, Transition, TransitionTimes,
};
use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Modification, Snapshot, Volume};
use ebs_types::{SnapshotId, VolumeId};
use tokio::time::{Instant, timeout_at};

use super::lookups::latest;
use crate::op::Op;
use crate::refused::refused;
use crate::{CloudError, CloudErrorKind, bounds};

/// What an observation means to the operation that waits.
pub(crate) enum Verdict<T> {
    /// It is as it should be.
    Done(T),
    /// It will never be.
    Failed(CloudError),
    /// Not yet: poll again.
    Waiting,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstPoll {
    /// Now: it may be so already.
    Now,
    /// EC2 has only just begun: not before the least time that such a transition usually takes.
    After(Transition),
}

/// One wait: of which operation, and when it polls for the first time.
struct Wait<'a> {
    op: &'a Op<'a>,
    first: FirstPoll,
}

#[derive(Debug)]
pub(crate) struct ResourceWaiter<E> {
    batchers: Arc<DescribeBatchers<E>>,
    transition_times: TransitionTimes,
}

impl<E: Ec2> ResourceWaiter<E> {
    pub(crate) fn new(batchers: Arc<DescribeBatchers<E>>) -> Self {
        Self { batchers, transition_times: TransitionTimes::default() }
    }

    /// Until `decide` is done with the volume; it sees `None` while EC2 lists no such volume.
    pub(crate) async fn volume<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstPoll,
        id: &VolumeId,
        mut decide: impl FnMut(Option<Volume>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let key = id.clone();
        self.until(&self.batchers.volumes, Wait { op, first }, key, |mut found, sent| decide(found.pop(), sent)).await
    }

    /// Until `decide` is done with the volume's latest modification; `None`: EC2 knows of none.
    pub(crate) async fn modification<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstPoll,
        id: &VolumeId,
        mut decide: impl FnMut(Option<Modification>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let key = id.clone();
        self.until(&self.batchers.modifications, Wait { op, first }, key, |found, sent| decide(latest(found), sent))
            .await
    }

    /// Until `decide` is done with all the volumes that carry that CSI name.
    pub(crate) async fn volumes<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        decide: impl FnMut(Vec<Volume>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        self.until(&self.batchers.volume_names, Wait { op, first: FirstPoll::Now }, name.to_owned(), decide).await
    }

    /// Until `decide` is done with all the snapshots of the account that carry that CSI name.
    pub(crate) async fn snapshots<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        decide: impl FnMut(Vec<Snapshot>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        self.until(&self.batchers.snapshot_names, Wait { op, first: FirstPoll::Now }, name.to_owned(), decide).await
    }

    /// Until `decide` is done with the snapshot; it sees `None` while EC2 lists no such snapshot.
    pub(crate) async fn snapshot<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstPoll,
        id: &SnapshotId,
        mut decide: impl FnMut(Option<Snapshot>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let key = id.clone();
        self.until(&self.batchers.snapshots, Wait { op, first }, key, |mut found, sent| decide(found.pop(), sent)).await
    }

    async fn until<Q: DescribeQuery, T: Send>(
        &self,
        batcher: &DescribeBatcher<Q, E>,
        wait: Wait<'_>,
        key: Q::Key,
        mut decide: impl FnMut(Vec<Q::Item>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let Wait { op, first } = wait;
        let began = Instant::now();
        let last_describe = bounds::describe_until(began, op.deadline);
        let mut subscription = batcher.subscribe(key, self.poll_times(first, began));
        let (mut answered, mut not_done_at, mut last_error) = (false, None, None);
        loop {
            let wake = if answered { op.deadline } else { op.deadline.max(last_describe) };
            let observation = op.unless_superseded(timeout_at(wake, subscription.next())).await?.ok();
            answered |= observation.is_some();
            match observation {
                None => {}
                Some(Observation { sent, result: Ok(found) }) => match decide(found, sent) {
                    Verdict::Done(value) => {
                        self.record(first, not_done_at, sent - began);
                        return Ok(value);
                    }
                    Verdict::Failed(error) => return Err(error),
                    Verdict::Waiting => (not_done_at, last_error) = (Some(sent - began), None),
                },
                Some(Observation { result: Err(e), .. }) if is_transient(op, e.class) => last_error = Some(e),
                Some(Observation { result: Err(e), .. }) => return Err(describe_refused(op, e)),
            }
            let now = Instant::now();
            if now >= op.deadline && (answered || now >= last_describe) {
                return Err(timed_out(op, now - began, last_error));
            }
        }
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

fn describe_refused(op: &Op<'_>, error: Ec2Error) -> CloudError {
    if !op.has_mutated() {
        return refused(op, error);
    }
    let message = format!("{op}: EC2 does not let us see how far it is");
    CloudErrorKind::OutcomeUnknown.error(message).caused_by(error)
}

/// Nothing that a later describe could not cure. That EC2 was never reached is better reported at once.
fn is_transient(op: &Op<'_>, class: ErrorClass) -> bool {
    match class {
        ErrorClass::Throttled | ErrorClass::Ambiguous => true,
        ErrorClass::NotSent => op.has_mutated(),
        _ => false,
    }
}

fn timed_out(op: &Op<'_>, waited: Duration, last_error: Option<Ec2Error>) -> CloudError {
    let waited = humantime::format_duration(Duration::from_secs(waited.as_secs()));
    let message = format!("{op}: not done after {waited}, EC2 still works on it; try again");
    CloudErrorKind::InProgress.error(message).caused_by(last_error)
}
