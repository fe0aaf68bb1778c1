//! The DetachVolume call, and what its answer proves. Rule 6 of [`super::believe`] explains when the driver sends an
//! extra one.

use std::time::Duration;

use ebs_ec2::{Action, Attachment, Attachments, ClusterNodes, DetachRequest, Ec2, Ec2Error, ErrorClass, NodeId};
use tokio::time::Instant;

use super::PairOperation;
use super::believe::{end_is_believed_from, is_same, reports_available, reports_not_attached};
use super::memory::Event;
use crate::describe::FirstPoll;
use crate::error_map::map_error;
use crate::op_context::OpContext;
use crate::retry::mutate;
use crate::traffic::{BucketKey, Transition};
use crate::{CloudError, CloudErrorKind, Result, timeouts};

pub(super) struct DetachProgress {
    /// A describe sent at this instant or later proves the detachment if it lists nothing.
    pub(super) believed_from: Instant,
    /// Describes sent at this instant or later show the effect of the DetachVolume.
    pub(super) answer_shows_from: Instant,
    pub(super) refusal: Option<Ec2Error>,
    pub(super) first: FirstPoll,
    /// EC2 accepted the detach, so an extra DetachVolume can reveal the state.
    pub(super) may_ask: bool,
    /// EC2's answer did not identify the attachment, so the following DescribeVolumes calls must show its attach time.
    pub(super) learns_age: bool,
    /// EC2 does not detach volumes from this instance any more. The attachment ends with the instance.
    pub(super) instance_ends: bool,
}

impl DetachProgress {
    /// Assumes that describe calls return stale results for the full 15 s from now, because nothing is known about the
    /// attachment.
    fn unknown(first: FirstPoll) -> Self {
        let soon = Instant::now() + timeouts::SETTLE;
        Self {
            believed_from: soon,
            answer_shows_from: soon,
            refusal: None,
            first,
            may_ask: false,
            learns_age: false,
            instance_ends: false,
        }
    }
}

/// The shortest remaining wait that justifies an extra call. With a limit of 2 s, volumes that waited 1 to 2 s raised
/// the 99th percentile of ControllerUnpublishVolume above its target of one second (`docs/dev/measuring.md`).
pub(super) const MIN_WAIT_FOR_SPARE_CALL: Duration = Duration::from_millis(500);

pub(super) enum SpareCall {
    Gone,
    /// EC2 accepted or may have accepted the extra call, so an attachment existed.
    Inconclusive,
    /// EC2 accepted the extra DetachVolume call, or may have accepted it: an attachment existed.
    Detaching(DetachProgress),
}

/// Sends DetachVolume without a describe, which would not show more than the answer.
pub(super) async fn call_detach<E: Ec2>(on: &PairOperation<'_, E>) -> Result<DetachProgress> {
    let &PairOperation { service, op, pair } = on;
    let ec2 = service.context.for_mutation(op);
    let answer = match &pair.node {
        NodeId::Instance(id) => {
            let request = DetachRequest { volume: pair.volume.clone(), instance: id.clone() };
            mutate(op, || ec2.detach_volume(&request)).await?.map(Some)
        }
        NodeId::HyperPod(node) => {
            mutate(op, || ec2.detach_cluster_node_volume(node, &pair.volume)).await?.map(|()| None)
        }
    };
    service.pairs.record(pair, Event::DetachAnswered);
    match answer {
        Ok(said) => Ok(detach_accepted(on, said.as_ref())),
        Err(error) => detach_refused(on, error),
    }
}

/// Records that EC2 accepted the detach. `said` is `None` for SageMaker, whose answer has no content.
fn detach_accepted<E: Ec2>(on: &PairOperation<'_, E>, said: Option<&Attachment>) -> DetachProgress {
    let &PairOperation { service, op, pair } = on;
    let detached = Instant::now();
    let progress = DetachProgress::unknown(FirstPoll::After(Transition::Detaching));
    let known = service.pairs.state(pair).known();
    service.pairs.record(pair, Event::Detaching);
    let Some(said) = said else {
        return DetachProgress { learns_age: !service.context.recent.in_startup_grace(), ..progress };
    };
    let believed_from = end_is_believed_from(detached, said, known, service.context.clock.now());
    if let Some(known) = known.filter(|known| known.is_sure)
        && !is_same(known.attach_time, said.attach_time)
        && believed_from > detached
    {
        service.context.report_end_by_time(Action::DetachVolume, op);
    }
    DetachProgress { believed_from, may_ask: true, ..progress }
}

fn detach_refused<E: Ec2>(on: &PairOperation<'_, E>, error: Ec2Error) -> Result<DetachProgress> {
    let &PairOperation { service, op, pair } = on;
    let now = Instant::now();
    let progress = DetachProgress::unknown(FirstPoll::Now);
    if error.class == ErrorClass::Ambiguous {
        service.pairs.record(pair, Event::DetachUnclear);
    }
    let believed_from = match error.class {
        _ if reports_available(&error) => now,
        // If this process knows that the attachment existed, the refusal may be as stale as a describe.
        _ if reports_not_attached(&error) => {
            let known = service.pairs.state(pair).known().map(|known| known.at + timeouts::SETTLE);
            known.map_or(now, |from| from.max(now))
        }
        ErrorClass::Ambiguous | ErrorClass::IncorrectState | ErrorClass::IncorrectInstanceState => {
            progress.believed_from
        }
        ErrorClass::Unsupported => return Err(is_of_another_service(op, error)),
        _ => return Err(map_error(op, error)),
    };
    let instance_ends = error.class == ErrorClass::IncorrectInstanceState;
    Ok(DetachProgress { believed_from, refusal: Some(error), instance_ends, ..progress })
}

/// Sends an extra DetachVolume if a client still waits and the estimated token bucket is at least half full.
pub(super) async fn spare_detach<E: Ec2>(on: &PairOperation<'_, E>) -> Result<SpareCall> {
    let &PairOperation { service, op, pair } = on;
    // SageMaker's refusals do not name the state.
    let NodeId::Instance(instance) = &pair.node else { return Ok(SpareCall::Inconclusive) };
    if op.ensure_wanted().is_err() {
        return Ok(SpareCall::Inconclusive);
    }
    let spare = service.context.for_mutation(op).acquired_spare(BucketKey::of(Action::DetachVolume));
    let Some(ec2) = spare else { return Ok(SpareCall::Inconclusive) };
    let request = DetachRequest { volume: pair.volume.clone(), instance: instance.clone() };
    op.mark_mutated();
    service.context.report_spare_call(Action::DetachVolume);
    let answer = ec2.detach_volume(&request).await;
    service.pairs.record(pair, Event::DetachAnswered);
    match answer {
        Ok(said) => Ok(SpareCall::Detaching(detach_accepted(on, Some(&said)))),
        Err(error) if reports_available(&error) => Ok(SpareCall::Gone),
        Err(error) if error.class == ErrorClass::Ambiguous => {
            service.pairs.record(pair, Event::Detaching);
            Ok(SpareCall::Detaching(detach_refused(on, error)?))
        }
        Err(_) => Ok(SpareCall::Inconclusive),
    }
}

/// Returns the error for a volume that another AWS service attached, such as ECS for a task.
fn is_of_another_service(op: &OpContext<'_>, error: Ec2Error) -> CloudError {
    let message = format!("{op}: another service has attached the volume; detach it through that service");
    CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
}

/// Continues a detach that EC2 accepted at `since` in an earlier operation. Another driver may have attached the volume
/// again, so a describe proves the detachment only if it reflects a time after this operation began.
pub(super) fn already_detaching(since: Instant) -> DetachProgress {
    let answer_shows_from = since + timeouts::SETTLE;
    DetachProgress { answer_shows_from, may_ask: true, ..DetachProgress::unknown(FirstPoll::Now) }
}
