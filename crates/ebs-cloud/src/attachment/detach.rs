//! Detaches a volume from a node. Reports success only with a proof that [`super::believe`] defines.

use std::time::SystemTime;

use ebs_ec2::{Ec2, Ec2Error, ErrorClass, Volume};
use tokio::time::Instant;

use super::believe::{believed_by_age, is_same, reports_attachable, reports_not_attached};
use super::detach_call::{
    DetachProgress, MIN_WAIT_FOR_SPARE_CALL, SpareCall, already_detaching, call_detach, spare_detach,
};
use super::memory::{Event, Pair, Unfinished};
use super::node_attachment::{NodeAttachment, node_attachment};
use super::{AttachmentService, PairOperation};
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op_context::OpContext;
use crate::{CloudError, CloudErrorKind, Result};

/// The most DetachVolume calls per operation. Rarely, EC2 accepts a detach and then lists the volume as attached again.
const MAX_DETACH_CALLS: u32 = 3;

enum End {
    Gone,
    /// A describe sent late enough to show the detach lists an attachment that is not detaching.
    StillAttached,
    /// EC2 lists no attachment, but the describe may be too stale to prove the detachment.
    Unlisted,
}

pub(super) async fn detach<E: Ec2>(on: &PairOperation<'_, E>) -> Result<()> {
    let &PairOperation { service, op, pair } = on;
    op.ensure_wanted()?;
    // EC2 may still carry out an AttachVolume of the previous leader.
    let mut late_attach = late_attach_until(service, pair);
    if let Unfinished::Attach { until: settled, .. } = service.pairs.state(pair).unfinished {
        // EC2 may still carry out the AttachVolume of this process.
        op.sleep_until(settled).await?;
    }
    let mut progress = match service.pairs.state(pair).unfinished {
        Unfinished::Detach { since } => already_detaching(since),
        Unfinished::Nothing | Unfinished::Attach { .. } => call_detach(on).await?,
    };
    loop {
        // The loop calls EC2 again after `late_attach`, so "not attached" needs no further proof now.
        if late_attach.is_none() || !progress.refusal.as_ref().is_some_and(reports_attachable) {
            await_detached(on, progress).await?;
        }
        let Some(until) = late_attach.take() else { break };
        op.sleep_until(until).await?;
        progress = call_detach(on).await?;
    }
    service.pending_detaches.forget(pair);
    service.pairs.record(pair, Event::Ended);
    service.devices.release(pair.node.instance(), &pair.volume);
    service.instances.forget_device(pair.node.instance(), &pair.volume);
    Ok(())
}

async fn await_detached<E: Ec2>(on: &PairOperation<'_, E>, mut progress: DetachProgress) -> Result<()> {
    let &PairOperation { op, .. } = on;
    let mut calls = 1;
    loop {
        match (await_end(on, &progress).await?, progress.refusal.take()) {
            (End::Gone, _) => return Ok(()),
            (End::Unlisted, _) => {
                progress.may_ask = false;
                progress.first = FirstPoll::Now;
                match spare_detach(on).await? {
                    SpareCall::Gone => return Ok(()),
                    SpareCall::Inconclusive => {}
                    SpareCall::Detaching(next) => {
                        (progress, calls) = (DetachProgress { may_ask: false, ..next }, calls + 1)
                    }
                }
            }
            (End::StillAttached, Some(error)) if calls >= MAX_DETACH_CALLS || !reports_not_attached(&error) => {
                return Err(still_listed(op, error));
            }
            (End::StillAttached, None) if calls >= MAX_DETACH_CALLS => return Err(reappears(op)),
            // Either the attachment reappeared, or EC2's refusal "not attached" was stale. Call DetachVolume again.
            (End::StillAttached, _) => {
                calls += 1;
                progress = call_detach(on).await?;
            }
        }
    }
}

/// Returns the instant until which EC2 may still carry out an AttachVolume of another process, even after EC2 reported
/// that nothing is attached. Returns `None` if this process itself made the attachment as the only leader.
fn late_attach_until<E: Ec2>(service: &AttachmentService<E>, pair: &Pair) -> Option<Instant> {
    let alone_since = service.context.recent.leases.began(Sidecar::Attacher);
    let is_ours = service.pairs.state(pair).known().is_some_and(|known| known.is_sure && known.at >= alone_since);
    Some(service.context.recent.leases.sole_from(Sidecar::Attacher)).filter(|until| !is_ours && *until > Instant::now())
}

async fn await_end<E: Ec2>(on: &PairOperation<'_, E>, progress: &DetachProgress) -> Result<End> {
    let &PairOperation { service, op, pair } = on;
    let mut believed_from = progress.believed_from;
    let known = service.pairs.state(pair).known().and_then(|known| known.attach_time);
    let decide = |seen: Option<Volume>, sent: Instant| {
        let now = Instant::now();
        let node_attachment = seen.map_or(NodeAttachment::Absent, |volume| node_attachment(&volume, &pair.node));
        if let Some(attachment) = node_attachment.listed() {
            service.pending_detaches.record_listed(pair, &attachment.state);
        }
        match node_attachment {
            NodeAttachment::Absent if sent >= believed_from => return Verdict::Done(End::Gone),
            NodeAttachment::Absent if progress.may_ask && believed_from > now + MIN_WAIT_FOR_SPARE_CALL => {
                return Verdict::Done(End::Unlisted);
            }
            NodeAttachment::Attached(_) | NodeAttachment::Attaching(_)
                if sent >= progress.answer_shows_from && !progress.instance_ends =>
            {
                return Verdict::Done(End::StillAttached);
            }
            NodeAttachment::Detaching(a) if progress.learns_age => {
                let is_it = known.is_none() || is_same(known, a.attach_time);
                if let Some(from) = believed_by_age(now, &a, service.context.clock.now()).filter(|_| is_it) {
                    believed_from = believed_from.min(from);
                }
            }
            NodeAttachment::Absent
            | NodeAttachment::Detaching(_)
            | NodeAttachment::Attached(_)
            | NodeAttachment::Attaching(_) => {}
        }
        Verdict::Waiting
    };
    let ended = service.context.describer.await_volume(op, progress.first, &pair.volume, decide).await;
    ended.map_err(|error| match error.kind {
        CloudErrorKind::InProgress => {
            let busy_for = service.pending_detaches.busy_since(pair).map(|since| since.elapsed());
            let busy_since = busy_for.map(|time| service.context.clock.now() - time);
            let message = with_busy(error.message, busy_since);
            match &progress.refusal {
                Some(refusal) if progress.instance_ends => instance_has_not_ended(message, refusal),
                _ => CloudError { message, ..error },
            }
        }
        _ => error,
    })
}
fn still_listed(op: &OpContext<'_>, error: Ec2Error) -> CloudError {
    let message = format!("{op}: EC2 rejected the call but still lists the attachment; try again");
    let kind = match error.class {
        ErrorClass::Ambiguous => CloudErrorKind::OutcomeUnknown,
        _ => CloudErrorKind::FailedPrecondition,
    };
    kind.error(message).caused_by(error)
}

fn instance_has_not_ended(message: String, refusal: &Ec2Error) -> CloudError {
    let message = format!(
        "{message}; EC2 does not detach volumes from the instance in its current state, so the volume stays \
         attached until the instance is terminated"
    );
    CloudErrorKind::InProgress.error(message).caused_by(refusal.clone())
}

fn reappears(op: &OpContext<'_>) -> CloudError {
    let message = format!("{op}: EC2 accepted the call but still lists the attachment; try again");
    CloudErrorKind::InProgress.error(message)
}

fn with_busy(message: String, busy_since: Option<SystemTime>) -> String {
    let Some(since) = busy_since.map(humantime::format_rfc3339_seconds) else { return message };
    format!("{message}; unmount the device on the instance: EC2 has reported it busy since {since}")
}
