//! Why EC2 refused to attach: what a describe after the refusal shows.

use std::time::Duration;

use ebs_ec2::{Attachment, AttachmentState, Ec2, Ec2Error, ErrorClass, VolumeState};
use tokio::time::Instant;

use super::node_attachment::{NodeAttachment, elsewhere, holder, node_attachment};
use super::pairs::Pair;
use super::proof::Expected;
use crate::describe::{FirstPoll, Verdict};
use crate::error::refused;
use crate::op::Op;
use crate::volume::exists;
use crate::{Cloud, CloudError, Object, bounds};

/// What follows from a refusal.
pub(super) enum AfterRefusal {
    /// There is an attachment to the node already: it is to be waited for.
    Existing(Expected),
    /// What was in the way has gone.
    Retry,
}

impl<E: Ec2> Cloud<E> {
    /// Looks why, and waits, bounded, for what may get out of the way (`decisions.md` D-15). `first`: EC2 has refused
    /// this operation nothing before.
    pub(super) async fn after_refusal(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        error: Ec2Error,
        first: bool,
    ) -> Result<AfterRefusal, CloudError> {
        match error.class {
            ErrorClass::DeviceNameInUse => Ok(AfterRefusal::Retry),
            ErrorClass::VolumeNotFound | ErrorClass::InstanceNotFound | ErrorClass::MalformedId => {
                Err(no_such_object(pair, error))
            }
            ErrorClass::Throttled | ErrorClass::NotSent | ErrorClass::Unauthenticated | ErrorClass::Unauthorized => {
                Err(refused(&op.what, error))
            }
            ErrorClass::VolumeInUse | ErrorClass::IncorrectState => self.await_unblocked(op, pair, error, first).await,
            _ => self.unless_already_attached(op, pair, error).await,
        }
    }

    async fn await_unblocked(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        error: Ec2Error,
        first: bool,
    ) -> Result<AfterRefusal, CloudError> {
        let existing = self.existing_attachment(pair);
        let began = Instant::now();
        let mut was_blocked = false;
        let next = self
            .waiter
            .volume(op, FirstPoll::Now, &pair.volume, |seen, sent| {
                let settled = sent >= existing.settled;
                let Some(volume) = seen.filter(exists) else {
                    let object = Object::Volume(pair.volume.clone());
                    let gone = Verdict::Failed(CloudError::NotFound { object, cause: None });
                    return if settled { gone } else { Verdict::Waiting };
                };
                let waiting = match node_attachment(&volume, &pair.node) {
                    NodeAttachment::Attached(a) | NodeAttachment::Attaching(a) => {
                        self.pairs.listed(pair, a.attach_time, sent);
                        return Verdict::Done(Some(AfterRefusal::Existing(existing)));
                    }
                    NodeAttachment::Detaching(_) => true,
                    NodeAttachment::Absent => match elsewhere(&volume, &pair.node) {
                        Some(other) if began.elapsed() >= patience(other) => {
                            return Verdict::Failed(is_elsewhere(op, other, None));
                        }
                        Some(_) => true,
                        None => volume.state == VolumeState::Creating,
                    },
                };
                match (waiting, was_blocked) {
                    (true, _) => was_blocked = true,
                    (false, true) => return Verdict::Done(Some(AfterRefusal::Retry)),
                    // It went before the first describe; if EC2 says the same again it is something that no describe shows.
                    (false, false) if settled => return Verdict::Done(first.then_some(AfterRefusal::Retry)),
                    (false, false) => {}
                }
                Verdict::Waiting
            })
            .await?;
        next.ok_or_else(|| refused(&op.what, error))
    }

    /// EC2 may well name another reason for refusing what is done already.
    async fn unless_already_attached(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        error: Ec2Error,
    ) -> Result<AfterRefusal, CloudError> {
        let existing = self.existing_attachment(pair);
        let found = self.lookups.volume(op, &pair.volume).await?;
        match found.as_ref().map_or(NodeAttachment::Absent, |volume| node_attachment(volume, &pair.node)) {
            NodeAttachment::Attached(_) | NodeAttachment::Attaching(_) => return Ok(AfterRefusal::Existing(existing)),
            NodeAttachment::Detaching(_) | NodeAttachment::Absent => {}
        }
        match found.as_ref().and_then(|volume| elsewhere(volume, &pair.node)) {
            Some(other) if error.class == ErrorClass::ZoneMismatch => Err(is_elsewhere(op, other, Some(error))),
            _ => Err(refused(&op.what, error)),
        }
    }

    /// An attachment that we did not make just now: what describes prove of it follows from what this process knows.
    pub(super) fn existing_attachment(&self, pair: &Pair) -> Expected {
        Expected::found(self.pairs.last_known(pair), self.recent.began(), self.pairs.detach_asked_at(pair))
    }
}

/// How long a volume that is elsewhere is waited for.
fn patience(other: &Attachment) -> Duration {
    match other.state {
        AttachmentState::Detaching | AttachmentState::Busy => bounds::DETACHING_ELSEWHERE,
        _ => bounds::ATTACHED_ELSEWHERE,
    }
}

fn is_elsewhere(op: &Op<'_>, other: &Attachment, error: Option<Ec2Error>) -> CloudError {
    let state = match &other.state {
        AttachmentState::Detaching => "is still being detached from",
        AttachmentState::Busy => "is busy, and so not yet detached, on",
        _ => "is attached to",
    };
    let holder = holder(other);
    let message = format!("{}: the volume {state} {holder}; detach it there first", op.what);
    CloudError::FailedPrecondition { message, cause: error.map(Box::new) }
}

fn no_such_object(pair: &Pair, error: Ec2Error) -> CloudError {
    let is_about_the_instance = error.class == ErrorClass::InstanceNotFound
        || error.code.as_deref().is_some_and(|code| code.contains("Instance"));
    let object = if is_about_the_instance {
        Object::Instance(pair.node.instance().clone())
    } else {
        Object::Volume(pair.volume.clone())
    };
    CloudError::NotFound { object, cause: Some(Box::new(error)) }
}
