//! Attaching a volume to a node.

use ebs_ec2::{
    Action, Attachment, AttachmentState, Attachments, ClusterNodes, DetachRequest, Ec2, ErrorClass, NodeId, Volume,
};
use tokio::time::Instant;

use super::attach_call::{AfterRefusal, AttachCall, after_refusal, call_attach, existing_attachment};
use super::believe::{Expected, Proof, age};
use super::memory::{Event, Pair, Unfinished};
use super::node_attachment::{NodeAttachment, elsewhere, holder, node_attachment};
use super::{AttachmentService, PairOperation};
use crate::describe::{FirstPoll, Verdict};
use crate::error_map::map_error;
use crate::op_context::OpContext;
use crate::retry::mutate;
use crate::traffic::Transition;
use crate::{Attached, CloudError, CloudErrorKind, Object, Result, timeouts};

/// After this many refused attach calls, the operation fails, even if another try might succeed.
const MAX_REFUSALS: u32 = 5;

enum AttachOutcome {
    Attached(Box<Volume>, Attachment),
    /// The attachment stays in state `attaching`.
    Stuck(Attachment),
    /// EC2 does not list the attachment, in a describe that was sent late enough to show it.
    None,
}

pub(super) async fn attach<E: Ec2>(on: &PairOperation<'_, E>) -> Result<Attached> {
    let &PairOperation { service, op, pair } = on;
    // EC2 may still carry out an unanswered DetachVolume, which would undo the attachment that this call reports.
    if let Some(until) = service.pairs.state(pair).late_detach_until {
        op.sleep_until(until).await?;
    }
    if let Some(expected) = unfinished(on).await? {
        match await_attached(on, &expected, FirstPoll::Now).await? {
            AttachOutcome::None => forget(service, pair),
            outcome => return finish_attach(on, outcome).await,
        }
    }
    let mut refusals = 0;
    let (expected, first) = loop {
        let error = match call_attach(on).await? {
            AttachCall::Submitted(expected) if expected.is_certain() => {
                break (expected, FirstPoll::After(Transition::Attaching));
            }
            AttachCall::Submitted(expected) => break (expected, FirstPoll::Now),
            AttachCall::Refused(error) => error,
        };
        // A refusal because of a running modification does not count: the modification ends on its own.
        refusals += u32::from(error.class != ErrorClass::BeingModified);
        if refusals >= MAX_REFUSALS {
            return Err(map_error(op, error));
        }
        match after_refusal(on, error, refusals <= 1).await? {
            AfterRefusal::Existing(expected) => break (expected, FirstPoll::Now),
            AfterRefusal::Retry => {}
        }
    };
    let outcome = await_attached(on, &expected, first).await?;
    finish_attach(on, outcome).await
}

/// Returns an attachment to wait for before AttachVolume is called. After a call without an answer, only a describe
/// shows whether to repeat it. SageMaker's errors do not report an existing attachment, so a describe must show it.
async fn unfinished<E: Ec2>(on: &PairOperation<'_, E>) -> Result<Option<Expected>> {
    let &PairOperation { service, op, pair } = on;
    if let Unfinished::Attach { until: settled, .. } = service.pairs.state(pair).unfinished {
        return Ok(Some(Expected::unclear_until(settled)));
    }
    if matches!(pair.node, NodeId::Instance(_)) {
        return Ok(None);
    }
    let found = service.context.describer.volume(Some(op), &pair.volume).await?;
    match found.map_or(NodeAttachment::Absent, |volume| node_attachment(&volume, &pair.node)) {
        NodeAttachment::Absent => Ok(None),
        NodeAttachment::Attached(_) | NodeAttachment::Attaching(_) | NodeAttachment::Detaching(_) => {
            Ok(Some(existing_attachment(service, pair)))
        }
    }
}

async fn await_attached<E: Ec2>(
    on: &PairOperation<'_, E>,
    expected: &Expected,
    first: FirstPoll,
) -> Result<AttachOutcome> {
    let &PairOperation { service, op, pair } = on;
    let decide = |seen: Option<Volume>, sent: Instant| {
        let settled = sent >= expected.settled;
        let Some(volume) = seen else {
            let gone = Verdict::Failed(CloudError::not_found(Object::Volume(pair.volume.clone())));
            return if settled { gone } else { Verdict::Waiting };
        };
        let here = node_attachment(&volume, &pair.node);
        if settled && elsewhere(&volume, &pair.node).is_some() && here != NodeAttachment::Absent {
            return Verdict::Failed(listed_twice(op, &volume));
        }
        match here {
            NodeAttachment::Attached(attachment) => {
                let Some(proof) = expected.proof(&attachment, sent, service.context.clock.now()) else {
                    service.pairs.record_listed(pair, attachment.attach_time, sent);
                    return Verdict::Waiting;
                };
                if proof == Proof::TimeInstead {
                    service.context.report_end_by_time(Action::AttachVolume, op);
                }
                Verdict::Done(AttachOutcome::Attached(Box::new(volume), attachment))
            }
            NodeAttachment::Attaching(attachment) => {
                let age = age(&attachment, service.context.clock.now()).unwrap_or_default();
                let watched = service.pairs.record_listed(pair, attachment.attach_time, sent).at.elapsed();
                let stuck = attachment.state == AttachmentState::Attaching
                    && age.max(watched) > timeouts::STUCK_ATTACHING
                    && watched > timeouts::STUCK_WATCHED;
                if stuck { Verdict::Done(AttachOutcome::Stuck(attachment)) } else { Verdict::Waiting }
            }
            // Another client is detaching the volume.
            NodeAttachment::Detaching(a) if settled || expected.has_attach_time_of(&a) => {
                Verdict::Done(AttachOutcome::None)
            }
            NodeAttachment::Absent if settled => Verdict::Done(AttachOutcome::None),
            NodeAttachment::Detaching(_) | NodeAttachment::Absent => Verdict::Waiting,
        }
    };
    service.context.describer.await_volume(op, first, &pair.volume, decide).await
}

async fn finish_attach<E: Ec2>(on: &PairOperation<'_, E>, outcome: AttachOutcome) -> Result<Attached> {
    let &PairOperation { service, op, pair } = on;
    match outcome {
        AttachOutcome::Attached(volume, attachment) => attached(on, *volume, attachment),
        AttachOutcome::Stuck(attachment) => Err(clear_stuck(on, &attachment).await?),
        AttachOutcome::None => {
            forget(service, pair);
            let message = format!("{op}: EC2 does not list the attachment; call again with the same request");
            Err(CloudErrorKind::OutcomeUnknown.error(message))
        }
    }
}

fn forget<E: Ec2>(service: &AttachmentService<E>, pair: &Pair) {
    service.pairs.record(pair, Event::Ended);
    service.devices.release(pair.node.instance(), &pair.volume);
}

fn attached<E: Ec2>(on: &PairOperation<'_, E>, volume: Volume, attachment: Attachment) -> Result<Attached> {
    let &PairOperation { service, op, pair } = on;
    service.pairs.record(pair, Event::Attached { attach_time: attachment.attach_time });
    service.devices.record_attached(pair.node.instance(), &pair.volume);
    let Some(device) = attachment.device else {
        let message = format!("{op}: EC2 lists the attachment without a device name");
        return Err(CloudErrorKind::Internal.error(message));
    };
    Ok(Attached { device, attach_time: attachment.attach_time, volume })
}

/// Detaches a stuck attachment, so that the next attempt uses another device name. Returns this attempt's error.
async fn clear_stuck<E: Ec2>(on: &PairOperation<'_, E>, stuck: &Attachment) -> Result<CloudError> {
    let &PairOperation { service, op, pair } = on;
    let ec2 = service.context.for_mutation(op);
    let outcome = match &pair.node {
        NodeId::Instance(id) => {
            let request = DetachRequest { volume: pair.volume.clone(), instance: id.clone() };
            mutate(op, || ec2.detach_volume(&request)).await?.map(|_| ())
        }
        NodeId::HyperPod(node) => mutate(op, || ec2.detach_cluster_node_volume(node, &pair.volume)).await?.map(|_| ()),
    };
    service.pairs.record(pair, Event::DetachAnswered);
    let is_unclear = outcome.as_ref().is_err_and(|e| e.class == ErrorClass::Ambiguous);
    if is_unclear {
        service.pairs.record(pair, Event::DetachUnclear);
    }
    if outcome.is_ok() || is_unclear {
        service.pairs.record(pair, Event::Detaching);
    }
    service.devices.release(pair.node.instance(), &pair.volume);
    if let Some(device) = &stuck.device {
        service.devices.mark_likely_bad(pair.node.instance(), device);
    }
    let message = format!(
        "{}: the attachment is still \"attaching\" after {} s, so the driver requested a detach; try again",
        op.what,
        timeouts::STUCK_ATTACHING.as_secs()
    );
    Ok(CloudErrorKind::InProgress.error(message).caused_by(outcome.err()))
}

/// Returns the error for a volume without multi-attach that EC2 lists as attached twice.
fn listed_twice(op: &OpContext<'_>, volume: &Volume) -> CloudError {
    let holders: Vec<String> = volume.attachments.iter().map(holder).collect();
    let message =
        format!("{op}: EC2 lists several attachments of a volume without multi-attach: {}", holders.join(", "));
    CloudErrorKind::Internal.error(message)
}
