//! Waiters that describe an object until a condition holds.
//!
//! The caller names the object and evaluates each result. The batchers decide how often to call EC2, and for how many
//! objects at once. Throttles and lost answers only delay a wait. Once the operation has changed something, the same
//! applies to an unreachable EC2.
//!
//! A wait starts no mutation, so it continues after all clients of its operation have left. The next attempt joins it
//! or uses its result. It ends at once if another operation replaces its own.
//!
//! The results that `decide` receives are from describes sent after the wait began, at the given instant. They may be
//! up to 15 s older than that ([`bounds::SETTLE`]).

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

/// The meaning of a result for the operation that waits.
pub(crate) enum Verdict<T> {
    /// The condition holds.
    Done(T),
    /// The condition can never hold.
    Failed(CloudError),
    /// Not yet: describe again.
    Waiting,
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstPoll {
    /// Describe now, because the condition may hold already.
    Now,
    /// EC2 has only just begun. Describe after the least time that the transition usually takes.
    After(Transition),
}

/// One wait: its operation, and the time of its first describe.
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

    /// Waits until `decide` returns a result for the volume. It gets `None` while EC2 does not list the volume.
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

    /// Waits until `decide` returns a result for the volume's latest modification. `None`: EC2 lists no modification.
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

    /// Waits until `decide` returns a result for all volumes with the CSI name.
    pub(crate) async fn volumes<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        decide: impl FnMut(Vec<Volume>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        self.until(&self.batchers.volume_names, Wait { op, first: FirstPoll::Now }, name.to_owned(), decide).await
    }

    /// Waits until `decide` returns a result for all snapshots of the account with the CSI name.
    pub(crate) async fn snapshots<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        decide: impl FnMut(Vec<Snapshot>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        self.until(&self.batchers.snapshot_names, Wait { op, first: FirstPoll::Now }, name.to_owned(), decide).await
    }

    /// Waits until `decide` returns a result for the snapshot. It gets `None` while EC2 does not list the snapshot.
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
    let message = format!("{op}: EC2 has accepted it but does not let the driver see its progress");
    CloudErrorKind::OutcomeUnknown.error(message).caused_by(error)
}

/// Returns true if a later describe can succeed. If EC2 was never reached, the operation reports this at once.
fn is_transient(op: &Op<'_>, class: ErrorClass) -> bool {
    match class {
        ErrorClass::Throttled | ErrorClass::Ambiguous => true,
        ErrorClass::NotSent => op.has_mutated(),
        _ => false,
    }
}

fn timed_out(op: &Op<'_>, waited: Duration, last_error: Option<Ec2Error>) -> CloudError {
    let waited = humantime::format_duration(Duration::from_secs(waited.as_secs()));
    let message = format!("{op}: still in progress after {waited}; try again");
    CloudErrorKind::InProgress.error(message).caused_by(last_error)
}
