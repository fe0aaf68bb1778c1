//! The one home of waiting: looks at what EC2 says of an object until a condition holds.
//!
//! Callers say what they wait for and how to judge what they see; how often EC2 is asked, and for how many objects at
//! once, is decided at the desks (`traffic`). Throttles and lost answers do not end a wait, they only cost time; nor,
//! once the operation has changed something, does an EC2 that cannot be reached.
//! A wait starts no mutation, so it goes on when nobody waits for its operation any more: the next attempt joins it or
//! uses what it has learnt (`decisions.md` D-26). It ends at once when another operation is to run in its place.
//! What a judge sees was asked for after its wait began; it is told when: what a look shows may be 15 s older than that
//! ([`bounds::SETTLE`]).

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Modification, Snapshot, Volume};
use ebs_types::{SnapshotId, VolumeId};
use tokio::time::{Instant, timeout_at};

use crate::call::read_refused;
use crate::op::Op;
use crate::traffic::{Desk, Desks, First, Kind, News, UsualTimes, latest};
use crate::{CloudError, bounds};

/// What a look means to the one who waits.
pub(crate) enum Verdict<T> {
    /// It is as it should be.
    Done(T),
    /// It will never be.
    Failed(CloudError),
    /// Look again.
    Waiting,
}

/// When to look for the first time.
#[derive(Debug, Clone, Copy)]
pub(crate) enum FirstLook {
    /// Now: it may be so already.
    Now,
    /// EC2 has only just begun: not before the time that such a change usually takes at least.
    After(Change),
}

/// What EC2 has begun to do. Each has times of its own, which are learned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    /// `creating` to `available`.
    Creating,
    /// `attaching` to `attached`.
    Attaching,
    /// `detaching` to gone.
    Detaching,
    /// `modifying` to `optimizing`.
    Modifying,
}

/// One wait: of which operation, and when it looks for the first time.
struct Wait<'a> {
    op: &'a Op<'a>,
    first: FirstLook,
}

/// Waits on one EC2.
#[derive(Debug)]
pub(crate) struct Watch<E> {
    desks: Arc<Desks<E>>,
    usual: UsualTimes,
}

impl<E: Ec2> Watch<E> {
    /// Waits at those desks.
    pub(crate) fn new(desks: Arc<Desks<E>>) -> Self {
        Self { desks, usual: UsualTimes::default() }
    }

    /// Until the judge is content with the volume; it sees `None` while EC2 lists no such volume.
    pub(crate) async fn volume<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstLook,
        id: &VolumeId,
        mut judge: impl FnMut(Option<Volume>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let key = id.clone();
        self.until(&self.desks.volumes, Wait { op, first }, key, |mut found, sent| judge(found.pop(), sent)).await
    }

    /// Until the judge is content with the volume's latest modification; `None`: EC2 knows of none.
    pub(crate) async fn modification<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstLook,
        id: &VolumeId,
        mut judge: impl FnMut(Option<Modification>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let key = id.clone();
        self.until(&self.desks.modifications, Wait { op, first }, key, |found, sent| judge(latest(found), sent)).await
    }

    /// Until the judge is content with all the volumes that carry that CSI name.
    pub(crate) async fn volumes<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        judge: impl FnMut(Vec<Volume>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        self.until(&self.desks.volume_names, Wait { op, first: FirstLook::Now }, name.to_owned(), judge).await
    }

    /// Until the judge is content with all the snapshots of the account that carry that CSI name.
    pub(crate) async fn snapshots<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        judge: impl FnMut(Vec<Snapshot>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        self.until(&self.desks.snapshot_names, Wait { op, first: FirstLook::Now }, name.to_owned(), judge).await
    }

    /// Until the judge is content with the snapshot; it sees `None` while EC2 lists no such snapshot.
    pub(crate) async fn snapshot<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstLook,
        id: &SnapshotId,
        mut judge: impl FnMut(Option<Snapshot>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let key = id.clone();
        self.until(&self.desks.snapshots, Wait { op, first }, key, |mut found, sent| judge(found.pop(), sent)).await
    }

    async fn until<K: Kind, T: Send>(
        &self,
        desk: &Desk<K, E>,
        wait: Wait<'_>,
        key: K::Key,
        mut judge: impl FnMut(Vec<K::Item>, Instant) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let Wait { op, first } = wait;
        let began = Instant::now();
        let last_look = bounds::look_until(began, op.deadline);
        let mut visit = desk.visit(key, self.first(first, began));
        let (mut answered, mut not_yet, mut last_error) = (false, None, None);
        loop {
            let wake = if answered { op.deadline } else { op.deadline.max(last_look) };
            let news = op.unless_superseded(timeout_at(wake, visit.next())).await?.ok();
            answered |= news.is_some();
            match news {
                None => {}
                Some(News { sent, seen: Ok(found) }) => match judge(found, sent) {
                    Verdict::Done(value) => {
                        self.learn(first, not_yet, sent - began);
                        return Ok(value);
                    }
                    Verdict::Failed(error) => return Err(error),
                    Verdict::Waiting => (not_yet, last_error) = (Some(sent - began), None),
                },
                Some(News { seen: Err(e), .. }) if is_transient(op, e.class) => last_error = Some(e),
                Some(News { seen: Err(e), .. }) => return Err(cannot_see(op, e)),
            }
            let now = Instant::now();
            if now >= op.deadline && (answered || now >= last_look) {
                return Err(at_the_end(op, now - began, last_error));
            }
        }
    }

    fn first(&self, first: FirstLook, now: Instant) -> First {
        match first {
            FirstLook::Now => First { at: now, patient_from: now },
            FirstLook::After(change) => {
                let usual = self.usual.of(change);
                First { at: now + usual.from, patient_from: now + usual.to }
            }
        }
    }

    fn learn(&self, first: FirstLook, not_yet: Option<Duration>, done: Duration) {
        if let FirstLook::After(change) = first {
            self.usual.learn(change, not_yet, done);
        }
    }
}

/// A look that EC2 refuses for good.
fn cannot_see(op: &Op<'_>, error: Ec2Error) -> CloudError {
    if !op.has_mutated() {
        return read_refused(&op.what, error);
    }
    let message = format!("{}: EC2 does not let us see how far it is", op.what);
    CloudError::OutcomeUnknown { message, cause: Some(Box::new(error)) }
}

/// Nothing that a later look could not cure. An EC2 that was never reached is better told at once.
fn is_transient(op: &Op<'_>, class: ErrorClass) -> bool {
    match class {
        ErrorClass::Throttled | ErrorClass::Ambiguous => true,
        ErrorClass::NotSent => op.has_mutated(),
        _ => false,
    }
}

fn at_the_end(op: &Op<'_>, waited: Duration, last_error: Option<Ec2Error>) -> CloudError {
    let waited = humantime::format_duration(Duration::from_secs(waited.as_secs()));
    CloudError::InProgress {
        message: format!("{}: not done after {waited}, EC2 still works on it; try again", op.what),
        cause: last_error.map(Box::new),
    }
}
