//! Attaching a volume to a node.

use ebs_calls::Transition;
use ebs_ec2::{Action, Attachment, AttachmentState, Attachments, ClusterNodes, DetachRequest, Ec2, ErrorClass, Volume};
use ebs_types::{NodeId, VolumeId, Waiters};
use tokio::time::Instant;

use super::attach_call::{AfterRefusal, AttachCall};
use super::node_attachment::{NodeAttachment, elsewhere, holder, node_attachment};
use super::pairs::Pair;
use super::proof::{Expected, Proof, age};
use super::service::AttachmentService;
use crate::call::mutate;
use crate::describe::{FirstPoll, Verdict};
use crate::lease_terms::Sidecar;
use crate::op::Op;
use crate::refused::refused;
use crate::{Attached, CloudError, CloudErrorKind, Object, bounds};

/// The most refusals in one operation, counting those that another try may resolve.
const MAX_REFUSALS: u32 = 5;

/// The outcome of the wait for an attachment.
enum AttachOutcome {
    Attached(Box<Volume>, Attachment),
    /// The attachment stays `attaching`.
    Stuck(Attachment),
    /// EC2 lists no such attachment in a describe that would show it.
    None,
}

impl<E: Ec2> AttachmentService<E> {
    /// Attaches the volume to the node and waits until EC2 proves the attachment.
    ///
    /// # Errors
    /// `CloudErrorKind::NotFound` names the volume or the instance; `CloudErrorKind::FailedPrecondition` names the
    /// instance to which the volume is attached instead.
    pub async fn attach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<Attached, CloudError> {
        let pair = Pair { volume: volume.clone(), node: node.clone() };
        let op = Op::start(format!("attach {volume} to {node}"), bounds::ATTACH, waiters);
        self.context.recent.serve(Sidecar::Attacher, waiters, self.attach_within(op, pair)).await
    }

    async fn attach_within(&self, op: Op<'_>, pair: Pair) -> Result<Attached, CloudError> {
        // EC2 may still carry out an unanswered DetachVolume, and that would end the attachment that this call reports.
        if let Some(until) = self.pairs.late_detach_until(&pair) {
            op.sleep_until(until).await?;
        }
        if let Some(expected) = self.unfinished(&op, &pair).await? {
            match self.await_attached(&op, &pair, &expected, FirstPoll::Now).await? {
                AttachOutcome::None => self.forget(&pair),
                outcome => return self.finish_attach(&op, &pair, outcome).await,
            }
        }
        let mut refusals = 0;
        let (expected, first) = loop {
            let error = match self.call_attach(&op, &pair).await? {
                AttachCall::Submitted(expected) if expected.certain => {
                    break (expected, FirstPoll::After(Transition::Attaching));
                }
                AttachCall::Submitted(expected) => break (expected, FirstPoll::Now),
                AttachCall::Refused(error) => error,
            };
            // Waiting for the end of a modification does not mean that the request is wrong, so it does not count.
            refusals += u32::from(error.class != ErrorClass::BeingModified);
            if refusals >= MAX_REFUSALS {
                return Err(refused(op, error));
            }
            match self.after_refusal(&op, &pair, error, refusals <= 1).await? {
                AfterRefusal::Existing(expected) => break (expected, FirstPoll::Now),
                AfterRefusal::Retry => {}
            }
        };
        let outcome = self.await_attached(&op, &pair, &expected, first).await?;
        self.finish_attach(&op, &pair, outcome).await
    }

    /// Returns the attachment to describe before any call, if there is one. After a call without an answer, only a
    /// describe shows whether to repeat it. For a HyperPod node, SageMaker's errors do not distinguish an existing
    /// attachment from other failures.
    async fn unfinished(&self, op: &Op<'_>, pair: &Pair) -> Result<Option<Expected>, CloudError> {
        if let Some(settled) = self.pairs.unclear_until(pair) {
            return Ok(Some(Expected::unclear_until(settled)));
        }
        if matches!(pair.node, NodeId::Instance(_)) {
            return Ok(None);
        }
        let found = self.context.lookups.volume(Some(op), &pair.volume).await?;
        match found.map_or(NodeAttachment::Absent, |volume| node_attachment(&volume, &pair.node)) {
            NodeAttachment::Absent => Ok(None),
            NodeAttachment::Attached(_) | NodeAttachment::Attaching(_) | NodeAttachment::Detaching(_) => {
                Ok(Some(self.existing_attachment(pair)))
            }
        }
    }

    async fn await_attached(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        expected: &Expected,
        first: FirstPoll,
    ) -> Result<AttachOutcome, CloudError> {
        let decide = |seen: Option<Volume>, sent: Instant| {
            let settled = sent >= expected.settled;
            let Some(volume) = seen else {
                let object = Object::Volume(pair.volume.clone());
                let gone = Verdict::Failed(CloudError::not_found(object));
                return if settled { gone } else { Verdict::Waiting };
            };
            if settled
                && elsewhere(&volume, &pair.node).is_some()
                && node_attachment(&volume, &pair.node) != NodeAttachment::Absent
            {
                return Verdict::Failed(listed_twice(op, &volume));
            }
            match node_attachment(&volume, &pair.node) {
                NodeAttachment::Attached(attachment) => {
                    match expected.proof(&attachment, sent, self.context.clock.now()) {
                        Some(proof) => {
                            if proof == Proof::TimeInstead {
                                self.context.observer.ended_by_time(Action::AttachVolume, &op.what);
                            }
                            Verdict::Done(AttachOutcome::Attached(Box::new(volume), attachment))
                        }
                        None => {
                            self.pairs.listed(pair, attachment.attach_time, sent);
                            Verdict::Waiting
                        }
                    }
                }
                NodeAttachment::Attaching(attachment) => {
                    let age = age(&attachment, self.context.clock.now()).unwrap_or_default();
                    let watched = self.pairs.listed(pair, attachment.attach_time, sent).at.elapsed();
                    let stuck = attachment.state == AttachmentState::Attaching
                        && age.max(watched) > bounds::STUCK_ATTACHING
                        && watched > bounds::STUCK_WATCHED;
                    if stuck { Verdict::Done(AttachOutcome::Stuck(attachment)) } else { Verdict::Waiting }
                }
                // Another client detaches the volume.
                NodeAttachment::Detaching(a) if settled || expected.is(&a) => Verdict::Done(AttachOutcome::None),
                NodeAttachment::Absent if settled => Verdict::Done(AttachOutcome::None),
                NodeAttachment::Detaching(_) | NodeAttachment::Absent => Verdict::Waiting,
            }
        };
        self.context.waiter.volume(op, first, &pair.volume, decide).await
    }

    async fn finish_attach(&self, op: &Op<'_>, pair: &Pair, outcome: AttachOutcome) -> Result<Attached, CloudError> {
        match outcome {
            AttachOutcome::Attached(volume, attachment) => self.attached(op, pair, *volume, attachment),
            AttachOutcome::Stuck(attachment) => Err(self.clear_stuck(op, pair, &attachment).await?),
            AttachOutcome::None => {
                self.forget(pair);
                let message = format!("{op}: EC2 does not list the attachment; the next attempt starts over");
                Err(CloudErrorKind::OutcomeUnknown.error(message))
            }
        }
    }

    fn forget(&self, pair: &Pair) {
        self.pairs.gone(pair);
        self.devices.release(pair.node.instance(), &pair.volume);
    }

    fn attached(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        volume: Volume,
        attachment: Attachment,
    ) -> Result<Attached, CloudError> {
        self.pairs.existed(pair, attachment.attach_time);
        self.devices.settle(pair.node.instance(), &pair.volume);
        let Some(device) = attachment.device else {
            let message = format!("{op}: EC2 lists the attachment without a device name");
            return Err(CloudErrorKind::Internal.error(message));
        };
        Ok(Attached { device, attach_time: attachment.attach_time, volume })
    }

    /// Detaches an attachment that stays `attaching`, so that the next attempt can start again with another name.
    /// Returns the error of this attempt.
    async fn clear_stuck(&self, op: &Op<'_>, pair: &Pair, stuck: &Attachment) -> Result<CloudError, CloudError> {
        let ec2 = self.context.for_mutation(op);
        let outcome = match &pair.node {
            NodeId::Instance(id) => {
                let request = DetachRequest { volume: pair.volume.clone(), instance: id.clone() };
                mutate(op, || ec2.detach_volume(&request)).await?.map(|_| ())
            }
            NodeId::HyperPod(node) => {
                mutate(op, || ec2.detach_cluster_node_volume(node, &pair.volume)).await?.map(|_| ())
            }
        };
        self.pairs.detach_asked(pair);
        let is_unclear = outcome.as_ref().is_err_and(|e| e.class == ErrorClass::Ambiguous);
        if is_unclear {
            self.pairs.detach_unclear(pair);
        }
        if outcome.is_ok() || is_unclear {
            self.pairs.detaching(pair);
        }
        self.devices.release(pair.node.instance(), &pair.volume);
        if let Some(device) = &stuck.device {
            self.devices.mark_likely_bad(pair.node.instance(), device);
        }
        let message = format!(
            "{}: the attachment is still \"attaching\" after {} s, so the driver detaches it; try again",
            op.what,
            bounds::STUCK_ATTACHING.as_secs()
        );
        Ok(CloudErrorKind::InProgress.error(message).caused_by(outcome.err()))
    }
}

/// Returns the error for a listing that is impossible and makes all that EC2 lists for the volume unreliable.
fn listed_twice(op: &Op<'_>, volume: &Volume) -> CloudError {
    let holders: Vec<String> = volume.attachments.iter().map(holder).collect();
    let message =
        format!("{op}: EC2 lists several attachments of a volume without multi-attach: {}", holders.join(", "));
    CloudErrorKind::Internal.error(message)
}
