//! The one home of waiting: polls what EC2 says of an object until a condition holds.
//!
//! Callers say what they wait for and how to judge what they see; how often EC2 is asked, and for how many objects at
//! once, is decided here only. Throttles and lost answers do not end a wait, they only cost time; nor, once the
//! operation has changed something, does an EC2 that cannot be reached.
//! A wait starts no mutation; it ends soon after the last waiter of its operation has left.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Modification, Snapshot, SnapshotQuery, Volume, VolumeQuery};
use ebs_types::{DriverName, SnapshotId, VolumeId};
use tokio::time::{Instant, sleep_until};

use crate::call::read_refused;
use crate::op::Op;
use crate::{CloudError, pages};

const FIRST_INTERVAL: Duration = Duration::from_millis(500);
const LONGEST_INTERVAL: Duration = Duration::from_secs(5);

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

/// Waits on one EC2.
#[derive(Debug)]
pub(crate) struct Watch<E> {
    ec2: Arc<E>,
}

impl<E: Ec2> Watch<E> {
    /// Waits on that EC2.
    pub(crate) fn new(ec2: Arc<E>) -> Self {
        Self { ec2 }
    }

    /// Until the judge is content with the volume; it sees `None` while EC2 lists no such volume.
    pub(crate) async fn volume<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstLook,
        id: &VolumeId,
        judge: impl FnMut(Option<Volume>) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let query = VolumeQuery::FilterIds(vec![id.clone()]);
        let (ec2, query) = (&*self.ec2, &query);
        let look = || async move { Ok(pages::volumes(ec2, query).await?.into_iter().find(|v| v.id == *id)) };
        poll(op, first, look, judge).await
    }

    /// Until the judge is content with the volume's latest modification; `None`: EC2 knows of none.
    pub(crate) async fn modification<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstLook,
        id: &VolumeId,
        judge: impl FnMut(Option<Modification>) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let ec2 = &*self.ec2;
        poll(op, first, || latest_modification(ec2, id), judge).await
    }

    /// Until the judge is content with all the volumes that carry that CSI name.
    pub(crate) async fn volumes<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        judge: impl FnMut(Vec<Volume>) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let query = VolumeQuery::Tag { key: DriverName::VOLUME_NAME_TAG.to_owned(), values: vec![name.to_owned()] };
        poll(op, FirstLook::Now, || pages::volumes(&*self.ec2, &query), judge).await
    }

    /// Until the judge is content with all the snapshots of the account that carry that CSI name.
    pub(crate) async fn snapshots<T: Send>(
        &self,
        op: &Op<'_>,
        name: &str,
        judge: impl FnMut(Vec<Snapshot>) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let query = SnapshotQuery::Tag { key: DriverName::SNAPSHOT_NAME_TAG.to_owned(), values: vec![name.to_owned()] };
        poll(op, FirstLook::Now, || pages::snapshots(&*self.ec2, &query), judge).await
    }

    /// Until the judge is content with the snapshot; it sees `None` while EC2 lists no such snapshot.
    pub(crate) async fn snapshot<T: Send>(
        &self,
        op: &Op<'_>,
        first: FirstLook,
        id: &SnapshotId,
        judge: impl FnMut(Option<Snapshot>) -> Verdict<T> + Send,
    ) -> Result<T, CloudError> {
        let query = SnapshotQuery::FilterIds(vec![id.clone()]);
        let (ec2, query) = (&*self.ec2, &query);
        let look = || async move { Ok(pages::snapshots(ec2, query).await?.into_iter().find(|s| s.id == *id)) };
        poll(op, first, look, judge).await
    }
}

/// The modification of the volume that began last.
pub(crate) async fn latest_modification<E: Ec2>(ec2: &E, id: &VolumeId) -> ebs_ec2::Result<Option<Modification>> {
    let ids = std::slice::from_ref(id);
    let found = pages::all(|page| async move { ec2.describe_modifications(ids, &page).await }).await?;
    Ok(found.into_iter().filter(|m| m.volume == *id).max_by_key(|m| m.started))
}

async fn poll<S, T, F>(
    op: &Op<'_>,
    first: FirstLook,
    mut look: impl FnMut() -> F + Send,
    mut judge: impl FnMut(S) -> Verdict<T> + Send,
) -> Result<T, CloudError>
where
    S: Send,
    T: Send,
    F: Future<Output = Result<S, Ec2Error>> + Send,
{
    let started = Instant::now();
    let mut interval = FIRST_INTERVAL;
    if let FirstLook::After(change) = first {
        tracing::trace!(?change, "left alone for a while");
        sleep_until(started + interval).await;
    }
    loop {
        let last_error = match look().await {
            Ok(seen) => match judge(seen) {
                Verdict::Done(value) => return Ok(value),
                Verdict::Failed(error) => return Err(error),
                Verdict::Waiting => None,
            },
            Err(e) if is_transient(op, e.class) => Some(e),
            Err(e) if !op.has_mutated() => return Err(read_refused(&op.what, e)),
            Err(e) => {
                let message = format!("{}: EC2 does not let us see how far it is", op.what);
                return Err(CloudError::OutcomeUnknown { message, cause: Some(Box::new(e)) });
            }
        };
        op.still_wanted()?;
        let now = Instant::now();
        if now >= op.deadline {
            return Err(at_the_end(op, now - started, last_error));
        }
        sleep_until((now + interval).min(op.deadline)).await;
        interval = (interval * 3 / 2).min(LONGEST_INTERVAL);
    }
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
