//! The detach call, and what its answer proves.
//!
//! When a describe lists nothing and that is not a proof yet, an extra DetachVolume gets a refusal that names the state
//! ([`super::believe`] rule 6). The extra call only uses a token that no other call needs.

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
use crate::{CloudError, CloudErrorKind, timeouts};

pub(super) struct DetachProgress {
    /// The instant from which "nothing listed" proves that nothing is attached.
    pub(super) believed_from: Instant,
    /// Describes sent from this instant show the effect of the DetachVolume.
    pub(super) answer_shows_from: Instant,
    /// EC2's answer, if it refused.
    pub(super) refusal: Option<Ec2Error>,
    pub(super) first: FirstPoll,
    /// EC2 accepted the detach, and an extra DetachVolume may ask for the state.
    pub(super) may_ask: bool,
    /// The answer did not name the attachment that it ends. The describes after it do.
    pub(super) learns_age: bool,
    /// EC2 detaches nothing more from the instance, and the attachments end with it.
    pub(super) instance_ends: bool,
}

impl DetachProgress {
    /// Only the time of EC2's answer is known: now.
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

/// A shorter wait for a proof is not worth a call. With 2 s instead, the volumes with a wait of 1 to 2 s put the 99th
/// percentile of ControllerUnpublishVolume over its target of one second (`docs/performance.md`).
pub(super) const MIN_WAIT_FOR_SPARE_CALL: Duration = Duration::from_millis(500);

pub(super) enum SpareCall {
    Gone,
    /// The call proved nothing new, or was not sent.
    Inconclusive,
    /// There was an attachment (again), and EC2 accepted its detach, or may have accepted it.
    Detaching(DetachProgress),
}

/// Sends DetachVolume without a describe first: a describe would not show more.
pub(super) async fn call_detach<E: Ec2>(on: &PairOperation<'_, E>) -> Result<DetachProgress, CloudError> {
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

/// Records that EC2 accepted the detach. SageMaker's answer (`None`) has no further content.
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

fn detach_refused<E: Ec2>(on: &PairOperation<'_, E>, error: Ec2Error) -> Result<DetachProgress, CloudError> {
    let &PairOperation { service, op, pair } = on;
    let now = Instant::now();
    let progress = DetachProgress::unknown(FirstPoll::Now);
    if error.class == ErrorClass::Ambiguous {
        service.pairs.record(pair, Event::DetachUnclear);
    }
    let believed_from = match error.class {
        _ if reports_available(&error) => now,
        // This is as stale as a describe if this process knows that the attachment existed.
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

/// Sends an extra DetachVolume if a client still waits and the estimate of the bucket is at least half full.
pub(super) async fn spare_detach<E: Ec2>(on: &PairOperation<'_, E>) -> Result<SpareCall, CloudError> {
    let &PairOperation { service, op, pair } = on;
    // SageMaker's refusals do not name the state.
    let NodeId::Instance(instance) = &pair.node else { return Ok(SpareCall::Inconclusive) };
    if op.ensure_wanted().is_err() {
        return Ok(SpareCall::Inconclusive);
    }
    let spare = service.context.for_mutation(op).acquired_spare(BucketKey::of(Action::DetachVolume));
    let Some(ec2) = spare else {
        return Ok(SpareCall::Inconclusive);
    };
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
/// ECS tasks have such volumes, and so do HyperPod nodes if the driver asks EC2 to detach.
fn is_of_another_service(op: &OpContext<'_>, error: Ec2Error) -> CloudError {
    let message = format!("{op}: another service has attached the volume; detach it through that service");
    CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
}

/// Continues a detach that EC2 accepted at `since`, in an earlier operation that did not see its end. Another driver
/// may have attached the volume again since, so only describes of a time within this operation prove the end. They
/// already show the effect of the earlier detach.
pub(super) fn already_detaching(since: Instant) -> DetachProgress {
    let answer_shows_from = since + timeouts::SETTLE;
    DetachProgress { answer_shows_from, may_ask: true, ..DetachProgress::unknown(FirstPoll::Now) }
}
