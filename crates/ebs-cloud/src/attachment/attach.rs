//! Attaching a volume to a node.

use ebs_ec2::{Action, Attachment, AttachmentState, Attachments, ClusterNodes, DetachRequest, Ec2, ErrorClass, Volume};
use ebs_types::{NodeId, VolumeId, Waiters};

use super::begin::Begun;
use super::pairs::Pair;
use super::proof::{Expected, Proof, age};
use super::refusal::Next;
use super::standing::{Standing, elsewhere, holder, standing};
use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::wait::{Change, FirstLook, Verdict};
use crate::{Attached, Cloud, CloudError, Object, bounds};

/// So many calls may EC2 refuse in one operation for reasons that another try can cure.
const MOST_REFUSALS: u32 = 5;

/// What the wait for an attachment ended with.
enum Arrival {
    Attached(Box<Volume>, Attachment),
    /// It stays `attaching`.
    Stuck(Attachment),
    /// EC2 lists no such attachment, and would.
    None,
}

impl<E: Ec2> Cloud<E> {
    /// Sees to it that the volume is attached to the node and EC2 says so.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] names the volume or the instance; [`CloudError::FailedPrecondition`] names the
    /// instance to which the volume is attached instead.
    pub async fn attach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<Attached, CloudError> {
        let pair = Pair { volume: volume.clone(), node: node.clone() };
        let op = Op::start(format!("attach {volume} to {node}"), bounds::ATTACH, waiters);
        if let Some(expected) = self.unfinished(&op, &pair).await? {
            match self.arrival(&op, &pair, &expected, FirstLook::Now).await? {
                Arrival::None => self.forget(&pair),
                arrival => return self.end(&op, &pair, arrival).await,
            }
        }
        let mut refusals = 0;
        let (expected, first) = loop {
            let error = match self.begin_attach(&op, &pair).await? {
                Begun::Yes(expected) if expected.certain => break (expected, FirstLook::After(Change::Attaching)),
                Begun::Yes(expected) => break (expected, FirstLook::Now),
                Begun::Refused(error) => error,
            };
            refusals += 1;
            if refusals >= MOST_REFUSALS {
                return Err(refused(&op.what, error));
            }
            match self.after_refusal(&op, &pair, error, refusals == 1).await? {
                Next::Here(expected) => break (expected, FirstLook::Now),
                Next::Again => {}
            }
        };
        let arrival = self.arrival(&op, &pair, &expected, first).await?;
        self.end(&op, &pair, arrival).await
    }

    /// An attachment that is to be looked for before anything is asked of EC2. That is one whose call got no answer:
    /// such a call is never repeated blindly (`decisions.md` D-14). And any to a HyperPod node: SageMaker has no answer
    /// that tells an attachment which is there already from other failures (`ebs-cloud.md` E14).
    async fn unfinished(&self, op: &Op<'_>, pair: &Pair) -> Result<Option<Expected>, CloudError> {
        if let Some(settled) = self.pairs.unclear_until(pair) {
            return Ok(Some(Expected::unclear_until(settled)));
        }
        if matches!(pair.node, NodeId::Instance(_)) {
            return Ok(None);
        }
        let found = self.lookups.volume(op, &pair.volume).await?;
        match found.map_or(Standing::Absent, |volume| standing(&volume, &pair.node)) {
            Standing::Absent => Ok(None),
            Standing::Attached(_) | Standing::Arriving(_) | Standing::Leaving(_) => Ok(Some(self.already_here(pair))),
        }
    }

    async fn arrival(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        expected: &Expected,
        first: FirstLook,
    ) -> Result<Arrival, CloudError> {
        self.watch
            .volume(op, first, &pair.volume, |seen, sent| {
                let settled = sent >= expected.settled;
                let Some(volume) = seen else {
                    let object = Object::Volume(pair.volume.clone());
                    let gone = Verdict::Failed(CloudError::NotFound { object, cause: None });
                    return if settled { gone } else { Verdict::Waiting };
                };
                if settled
                    && elsewhere(&volume, &pair.node).is_some()
                    && standing(&volume, &pair.node) != Standing::Absent
                {
                    return Verdict::Failed(listed_twice(op, &volume));
                }
                match standing(&volume, &pair.node) {
                    Standing::Attached(attachment) => match expected.proof(&attachment, sent, self.clock.now()) {
                        Some(proof) => {
                            if proof == Proof::TimeInstead {
                                self.witness.ended_by_time(Action::AttachVolume, &op.what);
                            }
                            Verdict::Done(Arrival::Attached(Box::new(volume), attachment))
                        }
                        None => {
                            self.pairs.listed(pair, attachment.attach_time, sent);
                            Verdict::Waiting
                        }
                    },
                    Standing::Arriving(attachment) => {
                        let age = age(&attachment, self.clock.now()).unwrap_or_default();
                        let watched = self.pairs.listed(pair, attachment.attach_time, sent).at.elapsed();
                        let stuck = attachment.state == AttachmentState::Attaching
                            && age.max(watched) > bounds::STUCK_ATTACHING
                            && watched > bounds::STUCK_WATCHED;
                        if stuck { Verdict::Done(Arrival::Stuck(attachment)) } else { Verdict::Waiting }
                    }
                    // Somebody else takes it away.
                    Standing::Leaving(a) if settled || expected.is(&a) => Verdict::Done(Arrival::None),
                    Standing::Absent if settled => Verdict::Done(Arrival::None),
                    Standing::Leaving(_) | Standing::Absent => Verdict::Waiting,
                }
            })
            .await
    }

    async fn end(&self, op: &Op<'_>, pair: &Pair, arrival: Arrival) -> Result<Attached, CloudError> {
        match arrival {
            Arrival::Attached(volume, attachment) => self.attached(op, pair, *volume, attachment),
            Arrival::Stuck(attachment) => Err(self.clear_stuck(op, pair, &attachment).await?),
            Arrival::None => {
                self.forget(pair);
                let what = &op.what;
                let message = format!("{what}: EC2 lists no such attachment (any more); the next attempt begins anew");
                Err(CloudError::OutcomeUnknown { message, cause: None })
            }
        }
    }

    /// There is no attachment (any more).
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
            let message = format!("{}: EC2 lists the attachment without a device name", op.what);
            return Err(CloudError::Internal { message, cause: None });
        };
        Ok(Attached { device, attach_time: attachment.attach_time, volume })
    }

    /// An attachment that does not come is taken back, so that the next attempt can begin anew, with another name.
    /// Returns the error of this attempt.
    async fn clear_stuck(&self, op: &Op<'_>, pair: &Pair, stuck: &Attachment) -> Result<CloudError, CloudError> {
        let outcome = match &pair.node {
            NodeId::Instance(id) => {
                let request = DetachRequest { volume: pair.volume.clone(), instance: id.clone() };
                mutate(op, || self.ec2.detach_volume(&request)).await?.map(|_| ())
            }
            NodeId::HyperPod(node) => {
                mutate(op, || self.ec2.detach_cluster_node_volume(node, &pair.volume)).await?.map(|_| ())
            }
        };
        self.pairs.detach_asked(pair);
        if outcome.is_ok() || outcome.as_ref().is_err_and(|e| e.class == ErrorClass::Ambiguous) {
            self.pairs.leaving(pair);
        }
        self.devices.release(pair.node.instance(), &pair.volume);
        if let Some(device) = &stuck.device {
            self.devices.mark_likely_bad(pair.node.instance(), device);
        }
        let message = format!(
            "{}: EC2 did not get beyond \"attaching\" within {} s, so the attachment is being taken back; try again",
            op.what,
            bounds::STUCK_ATTACHING.as_secs()
        );
        Ok(CloudError::InProgress { message, cause: outcome.err().map(Box::new) })
    }
}

/// What cannot be: then nothing that EC2 lists of the volume is to be relied upon.
fn listed_twice(op: &Op<'_>, volume: &Volume) -> CloudError {
    let holders: Vec<String> = volume.attachments.iter().map(holder).collect();
    let message = format!("{}: EC2 lists several attachments of a volume for one: {}", op.what, holders.join(", "));
    CloudError::Internal { message, cause: None }
}
