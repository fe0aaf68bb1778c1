//! Waiting until a volume made from a snapshot has loaded all its blocks.

use std::time::Duration;

use ebs_ec2::{Ec2, VolumeStatus};
use ebs_types::{VolumeId, Waiters};
use tokio::time::{Instant, sleep_until};

use super::memory::Progress;
use super::service::VolumeService;
use crate::op::Op;
use crate::{CloudError, CloudErrorKind, bounds};

/// An end that EC2 estimates to be nearer than this is expected then.
const MIN_ESTIMATE: Duration = Duration::from_secs(60);
/// And EC2 is asked again at least this often, however long it estimates.
const MAX_ESTIMATE: Duration = Duration::from_hours(6);
/// Without an estimate EC2 is asked this often.
const POLL_WITHOUT_ESTIMATE: Duration = Duration::from_secs(120);
/// How often it is seen whether anybody still waits.
const WAITERS_CHECK_INTERVAL: Duration = Duration::from_secs(5);

impl<E: Ec2> VolumeService<E> {
    /// Waits until the volume has all its data at full speed. Ends soon after its last waiter has left.
    ///
    /// # Errors
    /// `CloudErrorKind::InProgress` says until when about it will take; what is known by then is remembered, so that the
    /// next attempt asks EC2 no earlier than this one would have.
    pub async fn await_initialized(&self, id: &VolumeId, waiters: &Waiters) -> Result<(), CloudError> {
        let op = Op::start(format!("wait until volume {id} is initialised"), bounds::INITIALIZED, waiters);
        loop {
            op.still_wanted()?;
            let progress = match self.memory.initialization(id) {
                Some(Progress::Until(until, _)) if until <= Instant::now() => self.ask_progress(&op, id).await?,
                Some(progress) => progress,
                None => self.ask_progress(&op, id).await?,
            };
            let Progress::Until(until, is_estimate) = progress else { return Ok(()) };
            let now = Instant::now();
            if now >= op.deadline {
                return Err(self.not_initialized(&op, is_estimate.then_some(until - now)));
            }
            sleep_until(until.min(now + WAITERS_CHECK_INTERVAL).min(op.deadline)).await;
        }
    }

    async fn ask_progress(&self, op: &Op<'_>, id: &VolumeId) -> Result<Progress, CloudError> {
        let status = self.context.lookups.volume_status(Some(op), id).await?;
        if status.is_none() {
            // One made a moment ago may not be shown yet.
            self.context.volume_for_sure(op, id).await?;
        }
        let Some(progress) = status.as_ref().and_then(progress) else {
            let message = format!("{op}: EC2 says nothing of it");
            return Err(CloudErrorKind::Unavailable.error(message));
        };
        self.memory.note_initialization(id, progress);
        Ok(progress)
    }

    fn not_initialized(&self, op: &Op<'_>, left: Option<Duration>) -> CloudError {
        let until = left.map(|left| humantime::format_rfc3339_seconds(self.context.clock.now() + left));
        let until = until.map_or("EC2 gives no estimate".to_owned(), |end| format!("EC2 expects the end about {end}"));
        CloudErrorKind::InProgress.error(format!("{op}: {until}; try again"))
    }
}

/// `None` when EC2 gave no status, which says nothing.
fn progress(status: &VolumeStatus) -> Option<Progress> {
    if !status.initializing()? {
        return Some(Progress::Done);
    }
    let wait = status.estimate.map_or(POLL_WITHOUT_ESTIMATE, |estimate| estimate.clamp(MIN_ESTIMATE, MAX_ESTIMATE));
    Some(Progress::Until(Instant::now() + wait, status.estimate.is_some()))
}
