//! Why EC2 refused to attach: the look that tells.

use std::time::Duration;

use ebs_ec2::{Attachment, AttachmentState, Ec2, Ec2Error, ErrorClass, VolumeState};
use tokio::time::Instant;

use super::pairs::Pair;
use super::proof::Expected;
use super::standing::{Standing, elsewhere, holder, standing};
use crate::error::refused;
use crate::op::Op;
use crate::volume::exists;
use crate::wait::{FirstLook, Verdict};
use crate::{Cloud, CloudError, Object, bounds};

/// What follows from a refusal.
pub(super) enum Next {
    /// There is an attachment to the node already: it is to be waited for.
    Here(Expected),
    /// What was in the way has gone.
    Again,
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
    ) -> Result<Next, CloudError> {
        match error.class {
            ErrorClass::DeviceNameInUse => Ok(Next::Again),
            ErrorClass::VolumeNotFound | ErrorClass::InstanceNotFound | ErrorClass::MalformedId => {
                Err(names_nothing(pair, error))
            }
            ErrorClass::Throttled | ErrorClass::NotSent | ErrorClass::Unauthenticated | ErrorClass::Unauthorized => {
                Err(refused(&op.what, error))
            }
            ErrorClass::VolumeInUse | ErrorClass::IncorrectState => {
                self.what_is_in_the_way(op, pair, error, first).await
            }
            _ => self.unless_it_is_here(op, pair, error).await,
        }
    }

    async fn what_is_in_the_way(
        &self,
        op: &Op<'_>,
        pair: &Pair,
        error: Ec2Error,
        first: bool,
    ) -> Result<Next, CloudError> {
        let here = self.already_here(pair);
        let began = Instant::now();
        let mut was_in_the_way = false;
        let next = self
            .watch
            .volume(op, FirstLook::Now, &pair.volume, |seen, sent| {
                let settled = sent >= here.settled;
                let Some(volume) = seen.filter(exists) else {
                    let object = Object::Volume(pair.volume.clone());
                    let gone = Verdict::Failed(CloudError::NotFound { object, cause: None });
                    return if settled { gone } else { Verdict::Waiting };
                };
                let waiting = match standing(&volume, &pair.node) {
                    Standing::Attached(a) | Standing::Arriving(a) => {
                        self.pairs.listed(pair, a.attach_time, sent);
                        return Verdict::Done(Some(Next::Here(here)));
                    }
                    Standing::Leaving(_) => true,
                    Standing::Absent => match elsewhere(&volume, &pair.node) {
                        Some(other) if began.elapsed() >= patience(other) => {
                            return Verdict::Failed(is_elsewhere(op, other, None));
                        }
                        Some(_) => true,
                        None => volume.state == VolumeState::Creating,
                    },
                };
                match (waiting, was_in_the_way) {
                    (true, _) => was_in_the_way = true,
                    (false, true) => return Verdict::Done(Some(Next::Again)),
                    // It went before the first look; if EC2 says the same again it is something that no look shows.
                    (false, false) if settled => return Verdict::Done(first.then_some(Next::Again)),
                    (false, false) => {}
                }
                Verdict::Waiting
            })
            .await?;
        next.ok_or_else(|| refused(&op.what, error))
    }

    /// EC2 may well name another reason for refusing what is done already.
    async fn unless_it_is_here(&self, op: &Op<'_>, pair: &Pair, error: Ec2Error) -> Result<Next, CloudError> {
        let here = self.already_here(pair);
        let found = self.lookups.volume(op, &pair.volume).await?;
        match found.as_ref().map_or(Standing::Absent, |volume| standing(volume, &pair.node)) {
            Standing::Attached(_) | Standing::Arriving(_) => return Ok(Next::Here(here)),
            Standing::Leaving(_) | Standing::Absent => {}
        }
        match found.as_ref().and_then(|volume| elsewhere(volume, &pair.node)) {
            Some(other) if error.class == ErrorClass::ZoneMismatch => Err(is_elsewhere(op, other, Some(error))),
            _ => Err(refused(&op.what, error)),
        }
    }

    /// An attachment that we did not make just now: what looks prove of it follows from what this process knows.
    pub(super) fn already_here(&self, pair: &Pair) -> Expected {
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

fn names_nothing(pair: &Pair, error: Ec2Error) -> CloudError {
    let is_about_the_instance = error.class == ErrorClass::InstanceNotFound
        || error.code.as_deref().is_some_and(|code| code.contains("Instance"));
    let object = if is_about_the_instance {
        Object::Instance(pair.node.instance().clone())
    } else {
        Object::Volume(pair.volume.clone())
    };
    CloudError::NotFound { object, cause: Some(Box::new(error)) }
}
