//! Single questions: what is it now? Those that come while a call is under way travel together.

use std::sync::Arc;

use ebs_ec2::{Ec2, ErrorClass, Instance, Modification, Snapshot, Volume, VolumeStatus};
use ebs_types::{InstanceId, SnapshotId, VolumeId};
use tokio::time::{Instant, timeout_at};

use super::desk::{Desk, First};
use super::kinds::{Desks, Kind};
use crate::call::read_refused;
use crate::op::Op;
use crate::{CloudError, Object, bounds};

/// An answer that was lost is asked for again, so often.
const UNCLEAR_ANSWERS: u32 = 3;

/// Asks single questions. Each waits for at most [`bounds::LOOK`], and not beyond the end of its operation, if it
/// belongs to one; throttles cost time only.
#[derive(Debug)]
pub(crate) struct Lookups<E> {
    desks: Arc<Desks<E>>,
}

impl<E: Ec2> Lookups<E> {
    pub(crate) fn new(desks: Arc<Desks<E>>) -> Self {
        Self { desks }
    }

    /// The volume, in whatever state; `None` when EC2 lists none.
    pub(crate) async fn volume<'o>(
        &self,
        op: impl Into<Option<&'o Op<'o>>>,
        id: &VolumeId,
    ) -> Result<Option<Volume>, CloudError> {
        let step = format!("look at volume {id}");
        Ok(ask(&self.desks.volumes, &step, op.into(), id.clone()).await?.pop())
    }

    /// The volume's status; `None` when EC2 lists no such volume.
    pub(crate) async fn volume_status<'o>(
        &self,
        op: impl Into<Option<&'o Op<'o>>>,
        id: &VolumeId,
    ) -> Result<Option<VolumeStatus>, CloudError> {
        let step = format!("look at the status of volume {id}");
        Ok(ask(&self.desks.statuses, &step, op.into(), id.clone()).await?.pop())
    }

    /// The instance, in whatever state.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] when EC2 lists none.
    pub(crate) async fn instance<'o>(
        &self,
        op: impl Into<Option<&'o Op<'o>>>,
        id: &InstanceId,
    ) -> Result<Instance, CloudError> {
        let step = format!("look at instance {id}");
        let found = ask(&self.desks.instances, &step, op.into(), id.clone()).await?.pop();
        found.ok_or_else(|| CloudError::NotFound { object: Object::Instance(id.clone()), cause: None })
    }

    /// The snapshot, in whatever state; `None` when EC2 lists none.
    pub(crate) async fn snapshot<'o>(
        &self,
        op: impl Into<Option<&'o Op<'o>>>,
        id: &SnapshotId,
    ) -> Result<Option<Snapshot>, CloudError> {
        let step = format!("look at snapshot {id}");
        Ok(ask(&self.desks.snapshots, &step, op.into(), id.clone()).await?.pop())
    }
}

/// The modification that began last.
pub(crate) fn latest(found: Vec<Modification>) -> Option<Modification> {
    found.into_iter().max_by_key(|m| m.started)
}

async fn ask<K: Kind, E: Ec2>(
    desk: &Desk<K, E>,
    step: &str,
    op: Option<&Op<'_>>,
    key: K::Key,
) -> Result<Vec<K::Item>, CloudError> {
    let began = Instant::now();
    let until = op.map_or(began + bounds::LOOK, |op| bounds::look_until(began, op.deadline));
    let mut visit = desk.visit(key, First { at: began, patient_from: began });
    let mut unclear = 0;
    let mut last_error = None;
    loop {
        let next = timeout_at(until, visit.next());
        let news = match op {
            Some(op) => op.unless_superseded(next).await?,
            None => next.await,
        };
        let Ok(news) = news else { break };
        match news.seen {
            Ok(found) => return Ok(found),
            Err(e) if e.class == ErrorClass::Throttled => last_error = Some(e),
            Err(e) if e.class == ErrorClass::Ambiguous && unclear + 1 < UNCLEAR_ANSWERS => {
                unclear += 1;
                last_error = Some(e);
            }
            Err(e) => return Err(read_refused(step, e)),
        }
    }
    Err(match last_error {
        Some(e) => read_refused(step, e),
        None => {
            let waited = humantime::format_duration(until - began);
            CloudError::Unavailable { message: format!("{step}: EC2 gave no answer within {waited}"), cause: None }
        }
    })
}
