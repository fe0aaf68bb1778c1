//! Single describes of objects by id. Requests that arrive during a call share the next one.

use std::sync::Arc;

use ebs_calls::{DESCRIBE_TIMEOUT, DescribeBatcher, DescribeBatchers, DescribeQuery, PollTimes};
use ebs_ec2::{Ec2, ErrorClass, Instance, Modification, Snapshot, Volume, VolumeStatus};
use ebs_types::{InstanceId, SnapshotId, VolumeId};
use tokio::time::{Instant, timeout_at};

use crate::op::Op;
use crate::refused::refused;
use crate::{CloudError, CloudErrorKind, Object, bounds};

/// A lookup fails after this many lost answers.
const MAX_AMBIGUOUS_ANSWERS: u32 = 3;

/// Describes single objects. Each lookup waits for at most [`DESCRIBE_TIMEOUT`], and not beyond the deadline of its
/// operation, if it has one. A throttle only delays it.
#[derive(Debug)]
pub(crate) struct Lookups<E> {
    batchers: Arc<DescribeBatchers<E>>,
}

impl<E: Ec2> Lookups<E> {
    pub(crate) fn new(batchers: Arc<DescribeBatchers<E>>) -> Self {
        Self { batchers }
    }

    /// Returns the volume in any state. `None` if EC2 does not list it.
    pub(crate) async fn volume(&self, op: Option<&Op<'_>>, id: &VolumeId) -> Result<Option<Volume>, CloudError> {
        let step = format!("describe volume {id}");
        Ok(lookup(&self.batchers.volumes, &step, op, id.clone()).await?.pop())
    }

    /// Returns the volume's status. `None` if EC2 does not list the volume.
    pub(crate) async fn volume_status(
        &self,
        op: Option<&Op<'_>>,
        id: &VolumeId,
    ) -> Result<Option<VolumeStatus>, CloudError> {
        let step = format!("describe the status of volume {id}");
        Ok(lookup(&self.batchers.statuses, &step, op, id.clone()).await?.pop())
    }

    /// Returns the instance in any state.
    ///
    /// # Errors
    /// `CloudErrorKind::NotFound` if EC2 does not list it.
    pub(crate) async fn instance(&self, op: Option<&Op<'_>>, id: &InstanceId) -> Result<Instance, CloudError> {
        let step = format!("describe instance {id}");
        let found = lookup(&self.batchers.instances, &step, op, id.clone()).await?.pop();
        found.ok_or_else(|| CloudError::not_found(Object::Instance(id.clone())))
    }

    /// Returns the snapshot in any state. `None` if EC2 does not list it.
    pub(crate) async fn snapshot(&self, op: Option<&Op<'_>>, id: &SnapshotId) -> Result<Option<Snapshot>, CloudError> {
        let step = format!("describe snapshot {id}");
        Ok(lookup(&self.batchers.snapshots, &step, op, id.clone()).await?.pop())
    }
}

/// Returns the modification that began last.
pub(crate) fn latest(found: Vec<Modification>) -> Option<Modification> {
    found.into_iter().max_by_key(|m| m.started)
}

async fn lookup<Q: DescribeQuery, E: Ec2>(
    batcher: &DescribeBatcher<Q, E>,
    step: &str,
    op: Option<&Op<'_>>,
    key: Q::Key,
) -> Result<Vec<Q::Item>, CloudError> {
    let began = Instant::now();
    let until = op.map_or(began + DESCRIBE_TIMEOUT, |op| bounds::describe_until(began, op.deadline));
    let mut subscription = batcher.subscribe(key, PollTimes { first: began, back_off_from: began });
    let mut ambiguous = 0;
    let mut last_error = None;
    loop {
        let next = timeout_at(until, subscription.next());
        let observation = match op {
            Some(op) => op.unless_superseded(next).await?,
            None => next.await,
        };
        let Ok(observation) = observation else { break };
        match observation.result {
            Ok(found) => return Ok(found),
            Err(e) if e.class == ErrorClass::Throttled => last_error = Some(e),
            Err(e) if e.class == ErrorClass::Ambiguous && ambiguous + 1 < MAX_AMBIGUOUS_ANSWERS => {
                ambiguous += 1;
                last_error = Some(e);
            }
            Err(e) => return Err(refused(step, e)),
        }
    }
    Err(match last_error {
        Some(e) => refused(step, e),
        None => {
            let waited = humantime::format_duration(until - began);
            CloudErrorKind::Unavailable.error(format!("{step}: EC2 gave no answer within {waited}"))
        }
    })
}
