//! Attaching a volume to an instance.

use ebs_ec2::{
    AttachRequest, Attachment, AttachmentState, Attachments, DetachRequest, Ec2, Ec2Error, ErrorClass, Volume,
    VolumeState,
};
use ebs_types::{InstanceId, NodeId, VolumeId, Waiters};
use tokio::time::Instant;

use super::standing::{Standing, elsewhere, holder, standing};
use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::recent::Mark;
use crate::wait::{Change, FirstLook, Verdict};
use crate::{Attached, Cloud, CloudError, Object, bounds};

/// So many AttachVolume calls may EC2 refuse in one operation for reasons that another try can cure.
const MOST_REFUSALS: u32 = 5;

/// What became of an AttachVolume call.
enum Begun {
    /// EC2 took it, or may have: an attachment is to be waited for.
    Yes(FirstLook),
    /// It did nothing; the state of the volume may be another than thought.
    LookAgain(Ec2Error),
}

/// What the wait for an attachment ended with.
enum Arrival {
    Attached(Box<Volume>, Attachment),
    Stuck,
}

/// The pair that one operation is about.
struct Pair<'a> {
    volume: &'a VolumeId,
    instance: &'a InstanceId,
}

impl Pair<'_> {
    fn mark(&self) -> Mark {
        Mark::Attachment(self.volume.clone(), self.instance.clone())
    }
}

impl<E: Ec2> Cloud<E> {
    /// Sees to it that the volume is attached to the node and EC2 says so.
    ///
    /// # Errors
    /// [`CloudError::NotFound`] names the volume or the instance; [`CloudError::FailedPrecondition`] names the
    /// instance to which the volume is attached instead.
    pub async fn attach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<Attached, CloudError> {
        let pair = Pair { volume, instance: node.instance() };
        let op = Op::start(format!("attach {volume} to {}", pair.instance), bounds::ATTACH, waiters);
        let mut refusals = 0;
        let first = loop {
            if self.until_here_or_free(&op, &pair).await? {
                break FirstLook::Now;
            }
            match self.begin_attach(&op, &pair).await? {
                Begun::Yes(first) => break first,
                Begun::LookAgain(error) => {
                    refusals += 1;
                    let name_taken = error.class == ErrorClass::DeviceNameInUse;
                    if refusals >= MOST_REFUSALS || !(name_taken || self.now_taken(&op, &pair).await?) {
                        return Err(refused(&op.what, error));
                    }
                }
            }
        };
        match self.arrival(&op, &pair, first).await? {
            Arrival::Attached(volume, attachment) => self.attached(&op, &pair, *volume, attachment),
            Arrival::Stuck => Err(self.clear_stuck(&op, &pair).await?),
        }
    }

    fn attached(
        &self,
        op: &Op<'_>,
        pair: &Pair<'_>,
        volume: Volume,
        attachment: Attachment,
    ) -> Result<Attached, CloudError> {
        self.recent.confirm(&pair.mark());
        self.devices.settle(pair.instance, pair.volume);
        let Some(device) = attachment.device else {
            let message = format!("{}: EC2 lists the attachment without a device name", op.what);
            return Err(CloudError::Internal { message, cause: None });
        };
        Ok(Attached { device, attach_time: attachment.attach_time, volume })
    }

    /// True when the volume is attached to the instance or on its way to it; false when nothing keeps it from being
    /// attached. Waits, bounded, for attachments that are on their way out.
    async fn until_here_or_free(&self, op: &Op<'_>, pair: &Pair<'_>) -> Result<bool, CloudError> {
        let settled_at = self.recent.settled_at(&pair.mark());
        let began = Instant::now();
        self.watch
            .volume(op, FirstLook::Now, pair.volume, |seen| {
                let is_there = |v: &Volume| !matches!(v.state, VolumeState::Deleting | VolumeState::Deleted);
                let Some(volume) = seen.filter(is_there) else {
                    let object = Object::Volume(pair.volume.clone());
                    return Verdict::Failed(CloudError::NotFound { object, cause: None });
                };
                match standing(&volume, pair.instance) {
                    Standing::Attached(_) | Standing::Arriving(_) => Verdict::Done(true),
                    Standing::Leaving(_) => Verdict::Waiting,
                    Standing::Absent => match elsewhere(&volume, pair.instance) {
                        Some(other) if began.elapsed() >= patience(other) => Verdict::Failed(is_elsewhere(op, other)),
                        Some(_) => Verdict::Waiting,
                        None if Instant::now() < settled_at || volume.state == VolumeState::Creating => {
                            Verdict::Waiting
                        }
                        None => Verdict::Done(false),
                    },
                }
            })
            .await
    }

    async fn begin_attach(&self, op: &Op<'_>, pair: &Pair<'_>) -> Result<Begun, CloudError> {
        let instance = self.lookups.instance(op, pair.instance).await?;
        let cards = self.cards.of(&instance.instance_type).await;
        let Ok(holds) = self.devices.reserve(&instance, pair.volume, cards) else {
            let message = format!("{}: every device name of the instance is in use", op.what);
            return Err(CloudError::LimitExceeded { message, cause: None });
        };
        let request = AttachRequest {
            volume: pair.volume.clone(),
            instance: pair.instance.clone(),
            device: holds.device,
            card: holds.card,
        };
        let answer = match mutate(op, || self.ec2.attach_volume(&request)).await {
            Ok(answer) => answer,
            Err(abandoned) => {
                self.devices.release(pair.instance, pair.volume);
                return Err(abandoned);
            }
        };
        let error = match answer {
            Ok(attachment) => {
                self.recent.note(pair.mark());
                let there = attachment.state == AttachmentState::Attached;
                return Ok(Begun::Yes(if there { FirstLook::Now } else { FirstLook::After(Change::Attaching) }));
            }
            Err(e) if e.class == ErrorClass::Ambiguous => {
                self.recent.note(pair.mark());
                tracing::info!(volume = %pair.volume, instance = %pair.instance, error = %e, "looking whether the volume is attached");
                return Ok(Begun::Yes(FirstLook::Now));
            }
            Err(e) => e,
        };
        self.devices.release(pair.instance, pair.volume);
        match error.class {
            ErrorClass::DeviceNameInUse => {
                self.devices.mark_likely_bad(pair.instance, &request.device);
                Ok(Begun::LookAgain(error))
            }
            ErrorClass::VolumeInUse | ErrorClass::IncorrectState => Ok(Begun::LookAgain(error)),
            _ => Err(attach_refused(op, pair, error)),
        }
    }

    /// EC2 says that the volume cannot be attached now: true as soon as a look shows the attachment behind it.
    async fn now_taken(&self, op: &Op<'_>, pair: &Pair<'_>) -> Result<bool, CloudError> {
        let visible_by = Instant::now() + bounds::SETTLE;
        self.watch
            .volume(op, FirstLook::Now, pair.volume, |seen| {
                let taken = seen.as_ref().is_some_and(|v| {
                    standing(v, pair.instance) != Standing::Absent || elsewhere(v, pair.instance).is_some()
                });
                if taken || Instant::now() >= visible_by { Verdict::Done(taken) } else { Verdict::Waiting }
            })
            .await
    }

    async fn arrival(&self, op: &Op<'_>, pair: &Pair<'_>, first: FirstLook) -> Result<Arrival, CloudError> {
        let settled_at = self.recent.settled_at(&pair.mark());
        let (began, watched) = (self.clock.now(), Instant::now());
        let ended = self
            .watch
            .volume(op, first, pair.volume, |seen| {
                let settled = Instant::now() >= settled_at;
                let Some(volume) = seen else {
                    let object = Object::Volume(pair.volume.clone());
                    let gone = Verdict::Failed(CloudError::NotFound { object, cause: None });
                    return if settled { gone } else { Verdict::Waiting };
                };
                match standing(&volume, pair.instance) {
                    Standing::Attached(attachment) => {
                        Verdict::Done(Some(Arrival::Attached(Box::new(volume), attachment)))
                    }
                    Standing::Arriving(attachment) => {
                        let since = attachment.attach_time.unwrap_or(began);
                        let age = self.clock.now().duration_since(since).unwrap_or_default();
                        let stuck = attachment.state == AttachmentState::Attaching
                            && age > bounds::STUCK_ATTACHING
                            && watched.elapsed() > bounds::STUCK_WATCHED;
                        if stuck { Verdict::Done(Some(Arrival::Stuck)) } else { Verdict::Waiting }
                    }
                    Standing::Leaving(_) | Standing::Absent if settled => Verdict::Done(None),
                    Standing::Leaving(_) | Standing::Absent => Verdict::Waiting,
                }
            })
            .await?;
        if let Some(arrival) = ended {
            return Ok(arrival);
        }
        self.devices.release(pair.instance, pair.volume);
        let message = format!("{}: EC2 lists no such attachment (any more); the next attempt begins anew", op.what);
        Err(CloudError::OutcomeUnknown { message, cause: None })
    }

    /// An attachment that does not come is taken back, so that the next attempt can begin anew, with another name.
    /// Returns the error of this attempt.
    async fn clear_stuck(&self, op: &Op<'_>, pair: &Pair<'_>) -> Result<CloudError, CloudError> {
        let request = DetachRequest { volume: pair.volume.clone(), instance: pair.instance.clone() };
        let outcome = mutate(op, || self.ec2.detach_volume(&request)).await?;
        self.devices.settle(pair.instance, pair.volume);
        self.recent.confirm(&pair.mark());
        let message = format!(
            "{}: EC2 did not get beyond \"attaching\" within {} s, so the attachment is being taken back; try again",
            op.what,
            bounds::STUCK_ATTACHING.as_secs()
        );
        Ok(CloudError::InProgress { message, cause: outcome.err().map(Box::new) })
    }
}

/// How long a volume that is elsewhere is waited for.
fn patience(other: &Attachment) -> std::time::Duration {
    match other.state {
        AttachmentState::Detaching | AttachmentState::Busy => bounds::DETACHING_ELSEWHERE,
        _ => bounds::ATTACHED_ELSEWHERE,
    }
}

fn is_elsewhere(op: &Op<'_>, other: &Attachment) -> CloudError {
    let state = match &other.state {
        AttachmentState::Detaching => "is still being detached from",
        AttachmentState::Busy => "is busy, and so not yet detached, on",
        _ => "is attached to",
    };
    let holder = holder(other);
    let message = format!("{}: the volume {state} {holder}; detach it there first", op.what);
    CloudError::FailedPrecondition { message, cause: None }
}

fn attach_refused(op: &Op<'_>, pair: &Pair<'_>, error: Ec2Error) -> CloudError {
    let object = match error.class {
        ErrorClass::VolumeNotFound => Object::Volume(pair.volume.clone()),
        ErrorClass::InstanceNotFound => Object::Instance(pair.instance.clone()),
        ErrorClass::MalformedId if error.code.as_deref().is_some_and(|c| c.contains("Instance")) => {
            Object::Instance(pair.instance.clone())
        }
        ErrorClass::MalformedId => Object::Volume(pair.volume.clone()),
        _ => return refused(&op.what, error),
    };
    CloudError::NotFound { object, cause: Some(Box::new(error)) }
}
