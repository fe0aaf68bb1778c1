//! Waiting for modifications.

use std::time::SystemTime;

use ebs_calls::Transition;
use ebs_ec2::{Ec2, Modification, ModificationState, ModifyVolume, Volume};
use ebs_types::VolumeId;
use tokio::time::Instant;

use super::plan;
use crate::describe::{FirstPoll, Verdict};
use crate::op::Op;
use crate::volume::service::VolumeService;
use crate::{CloudError, CloudErrorKind, bounds};

impl<E: Ec2> VolumeService<E> {
    /// The latest modification once none runs, by a describe that was sent from `settled_at` on. One whose state this version does not know is waited for no longer than 15 s: then
    /// EC2 is the judge, of what it describes and of the next modification. EC2 shows the targets of a running one as if they were reached, so what
    /// it shows of the volume meanwhile proves nothing.
    pub(super) async fn latest_at_rest(
        &self,
        op: &Op<'_>,
        id: &VolumeId,
        settled_at: Instant,
    ) -> Result<Option<Modification>, CloudError> {
        let patient_until = Instant::now() + bounds::SETTLE;
        let decide = |seen: Option<Modification>, sent: Instant| {
            let settled = sent >= settled_at;
            match seen.as_ref().map(|m| &m.state) {
                Some(ModificationState::Modifying) => Verdict::Waiting,
                Some(ModificationState::Other(_)) if sent < patient_until => Verdict::Waiting,
                Some(ModificationState::Other(state)) => {
                    tracing::warn!(volume = %id, state, "this version does not know the state of the modification: the volume counts as EC2 describes it");
                    Verdict::Done(seen)
                }
                _ if settled => Verdict::Done(seen),
                _ => Verdict::Waiting,
            }
        };
        self.context.waiter.modification(op, FirstPoll::Now, id, decide).await
    }

    /// Waits until the modification asked for is past `modifying`. It began after `latest_before`; one that leads
    /// elsewhere is not it.
    pub(super) async fn modification_end(
        &self,
        op: &Op<'_>,
        request: &ModifyVolume,
        latest_before: Option<SystemTime>,
    ) -> Result<(), CloudError> {
        let visible_by = Instant::now() + bounds::SETTLE;
        let first = FirstPoll::After(Transition::Modifying);
        let decide = |seen: Option<Modification>, sent: Instant| match seen {
            Some(m) if plan::is_after(&m, latest_before) && plan::leads_to(request, &m) => match &m.state {
                ModificationState::Failed => Verdict::Failed(has_failed(op, &m)),
                ModificationState::Completed | ModificationState::Optimizing => Verdict::Done(()),
                ModificationState::Other(state) if sent >= visible_by => {
                    Verdict::Failed(is_in_unknown_state(op, state))
                }
                ModificationState::Modifying | ModificationState::Other(_) => Verdict::Waiting,
            },
            _ if sent < visible_by => Verdict::Waiting,
            _ => Verdict::Failed(
                CloudErrorKind::OutcomeUnknown
                    .error(format!("{op}: EC2 shows no such modification; the next attempt looks again")),
            ),
        };
        self.context.waiter.modification(op, first, &request.volume, decide).await
    }

    /// After a refusal: true when the modification asked for is there already, made by another process or by a call
    /// whose answer was lost, and merely not shown before. A repeated refusal is not followed for 15 s anew.
    pub(super) async fn is_made_already(
        &self,
        op: &Op<'_>,
        request: &ModifyVolume,
        latest_before: Option<SystemTime>,
    ) -> Result<bool, CloudError> {
        let visible_by = self.context.recent.refusal_settles_at(&request.volume);
        let decide = |seen: Option<Modification>, sent: Instant| match seen {
            Some(m) if plan::is_after(&m, latest_before) => Verdict::Done(plan::leads_to(request, &m)),
            _ if sent < visible_by => Verdict::Waiting,
            _ => Verdict::Done(false),
        };
        self.context.waiter.modification(op, FirstPoll::Now, &request.volume, decide).await
    }

    /// The volume once EC2 describes it as asked for.
    pub(super) async fn reached(&self, op: &Op<'_>, request: &ModifyVolume) -> Result<Volume, CloudError> {
        let decide = |seen: Option<Volume>, _: Instant| match seen {
            Some(v) if plan::is_met(request, &v) => Verdict::Done(v),
            // What is not listed a moment after it was modified is merely not shown; the bound ends the wait.
            Some(_) | None => Verdict::Waiting,
        };
        self.context.waiter.volume(op, FirstPoll::Now, &request.volume, decide).await
    }
}

fn is_in_unknown_state(op: &Op<'_>, state: &str) -> CloudError {
    let message = format!(
        "{op}: EC2 shows the modification in the state {state:?}, which this version does not know; the next attempt looks again"
    );
    CloudErrorKind::InProgress.error(message)
}

fn has_failed(op: &Op<'_>, modification: &Modification) -> CloudError {
    let why = modification.status_message.as_deref().unwrap_or("EC2 does not say why");
    CloudErrorKind::Internal.error(format!("{op}: the modification has failed: {why}"))
}
