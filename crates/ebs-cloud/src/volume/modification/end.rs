//! Waits for modifications.

use std::time::SystemTime;

use ebs_ec2::{Ec2, Modification, ModificationState, ModifyVolume, Volume, VolumeId};
use tokio::time::Instant;

use super::plan;
use crate::describe::{FirstPoll, Verdict};
use crate::op_context::OpContext;
use crate::traffic::Transition;
use crate::volume::VolumeService;
use crate::{CloudError, CloudErrorKind, Result, timeouts};

/// Waits until no modification runs, and returns the latest one, as described at `settled_at` or later. While a
/// modification runs, EC2 describes the volume as if it had already reached the targets. Waits at most 15 s while the
/// state is unknown.
pub(super) async fn latest_at_rest<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    id: &VolumeId,
    settled_at: Instant,
) -> Result<Option<Modification>> {
    let patient_until = Instant::now() + timeouts::SETTLE;
    let decide = |seen: Option<Modification>, sent: Instant| {
        let settled = sent >= settled_at;
        match seen.as_ref().map(|m| &m.state) {
            Some(ModificationState::Modifying) => Verdict::Waiting,
            Some(ModificationState::Other(_)) if sent < patient_until => Verdict::Waiting,
            Some(ModificationState::Other(state)) => {
                tracing::warn!(
                    volume = %id, state,
                    "unknown modification state, using the volume as EC2 describes it"
                );
                Verdict::Done(seen)
            }
            _ if settled => Verdict::Done(seen),
            _ => Verdict::Waiting,
        }
    };
    service.context.describer.await_modification(op, FirstPoll::Now, id, decide).await
}

/// Waits until the modification that has the requested targets and began after `latest_before` has left `modifying`.
pub(super) async fn modification_end<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    request: &ModifyVolume,
    latest_before: Option<SystemTime>,
) -> Result<()> {
    let visible_by = Instant::now() + timeouts::SETTLE;
    let first = FirstPoll::After(Transition::Modifying);
    let decide = |seen: Option<Modification>, sent: Instant| match seen {
        Some(m) if plan::is_after(&m, latest_before) && plan::leads_to(request, &m) => match &m.state {
            ModificationState::Failed => Verdict::Failed(has_failed(op, &m)),
            ModificationState::Completed | ModificationState::Optimizing => Verdict::Done(()),
            ModificationState::Other(state) if sent >= visible_by => Verdict::Failed(is_in_unknown_state(op, state)),
            ModificationState::Modifying | ModificationState::Other(_) => Verdict::Waiting,
        },
        _ if sent < visible_by => Verdict::Waiting,
        _ => {
            let message = format!("{op}: EC2 does not list the modification; try again to check its state");
            Verdict::Failed(CloudErrorKind::OutcomeUnknown.error(message))
        }
    };
    service.context.describer.await_modification(op, first, &request.volume, decide).await
}

/// Checks after a refusal whether the requested modification already exists. Repeated refusals share one wait of 15 s.
pub(super) async fn is_made_already<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    request: &ModifyVolume,
    latest_before: Option<SystemTime>,
) -> Result<bool> {
    let visible_by = service.context.recent.record_refusal(&request.volume);
    let decide = |seen: Option<Modification>, sent: Instant| match seen {
        Some(m) if plan::is_after(&m, latest_before) => Verdict::Done(plan::leads_to(request, &m)),
        _ if sent < visible_by => Verdict::Waiting,
        _ => Verdict::Done(false),
    };
    service.context.describer.await_modification(op, FirstPoll::Now, &request.volume, decide).await
}

pub(super) async fn reached<E: Ec2>(
    service: &VolumeService<E>,
    op: &OpContext<'_>,
    request: &ModifyVolume,
) -> Result<Volume> {
    let decide = |seen: Option<Volume>, _: Instant| match seen {
        Some(v) if plan::is_met(request, &v) => Verdict::Done(v),
        // Right after a modification, EC2 may not list the volume.
        Some(_) | None => Verdict::Waiting,
    };
    service.context.describer.await_volume(op, FirstPoll::Now, &request.volume, decide).await
}

fn is_in_unknown_state(op: &OpContext<'_>, state: &str) -> CloudError {
    let message = format!("{op}: the modification is in the unknown state {state:?}; try again to check its state");
    CloudErrorKind::InProgress.error(message)
}

fn has_failed(op: &OpContext<'_>, modification: &Modification) -> CloudError {
    let why = modification.status_message.as_deref().unwrap_or("EC2 reports no reason");
    CloudErrorKind::Internal.error(format!("{op}: the modification has failed: {why}"))
}
