//! Sends the attach call without a describe before it: EC2's refusal reports the same obstacles.

use std::time::Duration;

use ebs_ec2::{
    AttachRequest, Attachment, AttachmentState, Attachments, ClusterNodes, Ec2, Ec2Error, ErrorClass, HyperPodNode,
    InstanceId, NodeId, Volume, VolumeState,
};
use tokio::time::Instant;

use super::await_modified::await_modified;
use super::believe::Expected;
use super::device_name::Reservation;
use super::memory::Pair;
use super::node_attachment::{NodeAttachment, elsewhere, holder, node_attachment};
use super::{AttachmentService, PairOperation};
use crate::describe::{FirstPoll, Verdict};
use crate::error_map::map_error;
use crate::lease_terms::Sidecar;
use crate::op_context::OpContext;
use crate::retry::mutate;
use crate::{CloudError, CloudErrorKind, Object, Result, timeouts};

pub(super) enum AttachCall {
    /// EC2 accepted the call, or may have accepted it. Wait for this attachment.
    Submitted(Expected),
    /// EC2 refused the call and changed nothing.
    Refused(Ec2Error),
}

pub(super) async fn call_attach<E: Ec2>(on: &PairOperation<'_, E>) -> Result<AttachCall> {
    let &PairOperation { service, pair, .. } = on;
    let called = match &pair.node {
        NodeId::Instance(id) => attach_to_instance(on, id).await?,
        NodeId::HyperPod(node) => attach_to_cluster_node(on, node).await?,
    };
    if let AttachCall::Submitted(expected) = &called {
        service.pairs.record(pair, expected.event());
    }
    Ok(called)
}

async fn attach_to_instance<E: Ec2>(on: &PairOperation<'_, E>, id: &InstanceId) -> Result<AttachCall> {
    let &PairOperation { service, op, pair } = on;
    // If EC2 accepted an earlier attempt, that attempt still holds its device name, and the current attempt must not
    // release the name.
    let held = service.devices.holds(id, &pair.volume);
    let holds = reserve(on, id).await?;
    let request =
        AttachRequest { volume: pair.volume.clone(), instance: id.clone(), device: holds.device, card: holds.card };
    let ec2 = service.context.for_mutation(op);
    let called = match mutate(op, || ec2.attach_volume(&request)).await {
        Ok(Ok(attachment)) => return Ok(AttachCall::Submitted(Expected::accepted(attachment.attach_time))),
        Ok(Err(e)) if e.class == ErrorClass::Ambiguous => return Ok(AttachCall::Submitted(unclear(op, &e))),
        Ok(Err(e)) => Ok(AttachCall::Refused(e)),
        Err(abandoned) => Err(abandoned),
    };
    let is_in_use = matches!(&called, Ok(AttachCall::Refused(e)) if e.class == ErrorClass::DeviceNameInUse);
    if !held || is_in_use {
        service.devices.release(id, &pair.volume);
    }
    if is_in_use {
        service.devices.mark_likely_bad(id, &request.device);
        service.instances.forget(id);
    }
    called
}

/// Reserves a device name, and an EBS card if needed. Describes the instance again if the cache shows no free name.
async fn reserve<E: Ec2>(on: &PairOperation<'_, E>, id: &InstanceId) -> Result<Reservation> {
    let &PairOperation { service, op, pair } = on;
    for _ in 0..2 {
        let instance_type = service.instances.get(op, id).await?.instance_type.clone();
        let cards = service.card_counts.get(&instance_type).await;
        // After a slow lookup of the cards, the first description may be too old to show which names are free.
        let instance = service.instances.get(op, id).await?;
        if let Some(holds) = service.devices.reserve(&instance, &pair.volume, cards) {
            return Ok(holds);
        }
        service.instances.forget(id);
    }
    let message = format!("{op}: every device name of the instance is in use");
    Err(CloudErrorKind::LimitExceeded.error(message))
}

/// Attaches the volume through SageMaker, which chooses the device name. Its reply has no attach time, so the time of
/// the reply identifies the attachment.
async fn attach_to_cluster_node<E: Ec2>(on: &PairOperation<'_, E>, node: &HyperPodNode) -> Result<AttachCall> {
    let &PairOperation { service, op, pair } = on;
    let asked = Instant::now();
    let ec2 = service.context.for_mutation(op);
    match mutate(op, || ec2.attach_cluster_node_volume(node, &pair.volume)).await? {
        Ok(said) => Ok(AttachCall::Submitted(Expected::begun(said.said_at, asked.elapsed()))),
        Err(e) if e.class == ErrorClass::Ambiguous => Ok(AttachCall::Submitted(unclear(op, &e))),
        Err(e) => Ok(AttachCall::Refused(e)),
    }
}
fn unclear(op: &OpContext<'_>, error: &Ec2Error) -> Expected {
    tracing::info!(name: "v3", step = %op.what, %error, "checking whether the volume is attached");
    Expected::unclear()
}

pub(super) enum AfterRefusal {
    /// An attachment to the node already exists. Wait for it.
    Existing(Expected),
    /// Nothing blocks the attachment any more.
    Retry,
}

/// Finds the reason for a refusal with a describe, and waits for a limited time until a temporary obstacle disappears.
pub(super) async fn after_refusal<E: Ec2>(
    on: &PairOperation<'_, E>,
    error: Ec2Error,
    first: bool,
) -> Result<AfterRefusal> {
    let &PairOperation { op, pair, .. } = on;
    match error.class {
        ErrorClass::DeviceNameInUse => Ok(AfterRefusal::Retry),
        ErrorClass::VolumeNotFound | ErrorClass::InstanceNotFound | ErrorClass::MalformedId => {
            Err(no_such_object(pair, error))
        }
        ErrorClass::Throttled
        | ErrorClass::NotSent
        | ErrorClass::Unauthenticated
        | ErrorClass::Unauthorized
        | ErrorClass::AccountState => Err(map_error(op, error)),
        ErrorClass::VolumeInUse | ErrorClass::IncorrectState | ErrorClass::IncorrectInstanceState => {
            await_unblocked(on, error, first).await
        }
        ErrorClass::BeingModified => await_modified(on, error).await,
        _ => unless_already_attached(on, error).await,
    }
}

async fn await_unblocked<E: Ec2>(on: &PairOperation<'_, E>, error: Ec2Error, first: bool) -> Result<AfterRefusal> {
    let &PairOperation { service, op, pair } = on;
    let existing = existing_attachment(service, pair);
    let began = Instant::now();
    let mut was_blocked = false;
    let decide = |seen: Option<Volume>, sent: Instant| {
        let settled = sent >= existing.settled;
        let Some(volume) = seen.filter(Volume::exists) else {
            let gone = Verdict::Failed(CloudError::not_found(Object::Volume(pair.volume.clone())));
            return if settled { gone } else { Verdict::Waiting };
        };
        let waiting = match node_attachment(&volume, &pair.node) {
            NodeAttachment::Attached(a) | NodeAttachment::Attaching(a) => {
                service.pairs.record_listed(pair, a.attach_time, sent);
                return Verdict::Done(Some(AfterRefusal::Existing(existing)));
            }
            NodeAttachment::Detaching(_) => true,
            NodeAttachment::Absent => match elsewhere(&volume, &pair.node) {
                Some(other) if began.elapsed() >= patience(other) => {
                    return Verdict::Failed(is_elsewhere(op, other));
                }
                Some(_) => true,
                None => volume.state == VolumeState::Creating,
            },
        };
        match (waiting, was_blocked) {
            (true, _) => was_blocked = true,
            (false, true) => return Verdict::Done(Some(AfterRefusal::Retry)),
            // Nothing blocked the attachment: retry once. If EC2 refuses again, no describe can explain why.
            (false, false) if settled => return Verdict::Done(first.then_some(AfterRefusal::Retry)),
            (false, false) => {}
        }
        Verdict::Waiting
    };
    let next = service.context.describer.await_volume(op, FirstPoll::Now, &pair.volume, decide).await?;
    next.ok_or_else(|| map_error(op, error))
}

/// Fails unless the attachment already exists, because EC2 may give another reason when it refuses a repeated call.
async fn unless_already_attached<E: Ec2>(on: &PairOperation<'_, E>, error: Ec2Error) -> Result<AfterRefusal> {
    let &PairOperation { service, op, pair } = on;
    let existing = existing_attachment(service, pair);
    let found = service.context.describer.volume(Some(op), &pair.volume).await?;
    match found.as_ref().map_or(NodeAttachment::Absent, |volume| node_attachment(volume, &pair.node)) {
        NodeAttachment::Attached(_) | NodeAttachment::Attaching(_) => return Ok(AfterRefusal::Existing(existing)),
        NodeAttachment::Detaching(_) | NodeAttachment::Absent => {}
    }
    match found {
        Some(volume) if error.class == ErrorClass::ZoneMismatch => Err(is_in_another_zone(op, pair, &volume, error)),
        _ => Err(map_error(op, error)),
    }
}

/// Returns the expectation for an attachment that this operation did not make, based on this process's memory.
pub(super) fn existing_attachment<E: Ec2>(service: &AttachmentService<E>, pair: &Pair) -> Expected {
    let alone_since = service.context.recent.leases.began(Sidecar::Attacher);
    Expected::existing(service.pairs.state(pair).known(), alone_since, service.pairs.state(pair).detach_answered)
}

/// Returns how long to wait until the volume is detached from another instance.
fn patience(other: &Attachment) -> Duration {
    match other.state {
        AttachmentState::Detaching | AttachmentState::Busy => timeouts::DETACHING_ELSEWHERE,
        _ => timeouts::ATTACHED_ELSEWHERE,
    }
}

fn is_elsewhere(op: &OpContext<'_>, other: &Attachment) -> CloudError {
    let state = match &other.state {
        AttachmentState::Detaching => "is still being detached from",
        AttachmentState::Busy => "is busy and still being detached from",
        _ => "is attached to",
    };
    let holder = holder(other);
    CloudErrorKind::FailedPrecondition.error(format!("{op}: the volume {state} {holder}; detach it there first"))
}

/// Names the current attachment in the message but does not advise detaching it: a pod may be using the volume.
fn is_in_another_zone(op: &OpContext<'_>, pair: &Pair, volume: &Volume, error: Ec2Error) -> CloudError {
    let zone = volume.zone.as_ref().map_or_else(|| "another zone".to_owned(), ToString::to_string);
    let attached =
        elsewhere(volume, &pair.node).map_or_else(String::new, |other| format!(", attached to {}", holder(other)));
    let message = format!(
        "{op}: volume and instance are in different zones: the volume is in {zone}{attached}; run the pod on a node in that zone"
    );
    CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
}

fn no_such_object(pair: &Pair, error: Ec2Error) -> CloudError {
    let is_about_the_instance = error.class == ErrorClass::InstanceNotFound
        || error.code.as_deref().is_some_and(|code| code.contains("Instance"));
    let object = match is_about_the_instance {
        true => Object::Instance(pair.node.instance().clone()),
        false => Object::Volume(pair.volume.clone()),
    };
    CloudError::not_found(object).caused_by(error)
}
