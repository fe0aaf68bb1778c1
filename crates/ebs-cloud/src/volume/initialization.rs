//! Waits until EC2 has loaded all blocks of a volume from its snapshot.

use std::time::Duration;

use ebs_ec2::{Ec2, VolumeId, VolumeStatus, Waiters};
use tokio::time::{Instant, sleep_until};

use super::VolumeService;
use super::memory::Progress;
use crate::op_context::OpContext;
use crate::{CloudError, CloudErrorKind, Result, timeouts};

const MIN_ESTIMATE: Duration = Duration::from_secs(60);
const MAX_ESTIMATE: Duration = Duration::from_hours(6);
const POLL_WITHOUT_ESTIMATE: Duration = Duration::from_secs(120);
const WAITERS_CHECK_INTERVAL: Duration = Duration::from_secs(5);

pub(super) async fn await_initialized<E: Ec2>(
    service: &VolumeService<E>,
    id: &VolumeId,
    waiters: &Waiters,
) -> Result<()> {
    let op = OpContext::start(format!("wait until volume {id} is initialized"), timeouts::INITIALIZED, waiters);
    loop {
        op.ensure_wanted()?;
        let progress = match service.memory.initialization(id) {
            Some(Progress::Until(until, _)) if until <= Instant::now() => ask_progress(service, &op, id).await?,
            Some(progress) => progress,
            None => ask_progress(service, &op, id).await?,
        };
        let Progress::Until(until, is_estimate) = progress else { return Ok(()) };
        let now = Instant::now();
        if now >= op.deadline {
            return Err(not_initialized(service, &op, is_estimate.then_some(until - now)));
        }
        sleep_until(until.min(now + WAITERS_CHECK_INTERVAL).min(op.deadline)).await;
    }
}

async fn ask_progress<E: Ec2>(service: &VolumeService<E>, op: &OpContext<'_>, id: &VolumeId) -> Result<Progress> {
    let status = service.context.describer.volume_status(Some(op), id).await?;
    if status.is_none() {
        // EC2 may not list a new volume yet.
        service.context.volume_for_sure(op, id).await?;
    }
    let Some(progress) = status.as_ref().and_then(progress) else {
        let message = format!("{op}: EC2 reports no initialization status");
        return Err(CloudErrorKind::Unavailable.error(message));
    };
    service.memory.record_initialization(id, progress);
    Ok(progress)
}

fn not_initialized<E: Ec2>(service: &VolumeService<E>, op: &OpContext<'_>, left: Option<Duration>) -> CloudError {
    let end = left.map(|left| humantime::format_rfc3339_seconds(service.context.clock.now() + left));
    let until = end.map_or("EC2 gives no estimate".to_owned(), |end| format!("EC2 expects completion at about {end}"));
    CloudErrorKind::InProgress.error(format!("{op}: {until}; try again"))
}

/// Returns the progress, or `None` if EC2 gave no status, which proves nothing.
fn progress(status: &VolumeStatus) -> Option<Progress> {
    if !status.initializing()? {
        return Some(Progress::Done);
    }
    let wait = status.estimate.map_or(POLL_WITHOUT_ESTIMATE, |estimate| estimate.clamp(MIN_ESTIMATE, MAX_ESTIMATE));
    Some(Progress::Until(Instant::now() + wait, status.estimate.is_some()))
}
