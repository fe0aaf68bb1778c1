//! Detaching a volume from an instance. Never forced, and never reported done before EC2 lists no attachment.

use std::time::SystemTime;

use ebs_ec2::{AttachmentState, Attachments, DetachRequest, Ec2, Ec2Error, ErrorClass, Volume};
use ebs_types::{InstanceId, NodeId, VolumeId, Waiters};
use tokio::time::Instant;

use super::standing::{Standing, standing};
use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::recent::Mark;
use crate::wait::{Change, FirstLook, Verdict};
use crate::{Cloud, CloudError, bounds};

/// What is known before the wait for the end.
struct Departure {
    /// From when on "nothing listed" proves that nothing is there: EC2 may not yet list what it accepted lately.
    believed_from: Instant,
    /// EC2 listed the attachment at some time: after that, "nothing listed" is the end of it.
    seen: bool,
    /// What EC2 answered to DetachVolume, when it refused.
    refusal: Option<Ec2Error>,
    /// When to look for the first time.
    first: FirstLook,
}

impl<E: Ec2> Cloud<E> {
    /// Sees to it that EC2 lists no attachment of the volume to the node. Never forced.
    ///
    /// # Errors
    /// [`CloudError::InProgress`] when the device stays busy.
    pub async fn detach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<(), CloudError> {
        let instance = node.instance();
        let op = Op::start(format!("detach {volume} from {instance}"), bounds::DETACH, waiters);
        let mark = Mark::Attachment(volume.clone(), instance.clone());
        let before = self.watch.volume(&op, FirstLook::Now, volume, Verdict::Done).await?;
        let standing = before.as_ref().map_or(Standing::Absent, |v| standing(v, instance));
        let departure = Departure {
            believed_from: self.recent.settled_at(&mark),
            seen: standing != Standing::Absent,
            refusal: None,
            first: FirstLook::After(Change::Detaching),
        };
        let departure = match standing {
            Standing::Leaving(_) => departure,
            // Also when nothing is listed: EC2's answer to the call is never behind the times.
            Standing::Attached(_) | Standing::Arriving(_) | Standing::Absent => {
                self.begin_detach(&op, volume, instance, departure).await?
            }
        };
        self.end_of(&op, volume, instance, departure).await?;
        self.recent.confirm(&mark);
        self.devices.release(instance, volume);
        Ok(())
    }

    async fn begin_detach(
        &self,
        op: &Op<'_>,
        volume: &VolumeId,
        instance: &InstanceId,
        before: Departure,
    ) -> Result<Departure, CloudError> {
        let request = DetachRequest { volume: volume.clone(), instance: instance.clone() };
        let soon = Instant::now() + bounds::SETTLE;
        match mutate(op, || self.ec2.detach_volume(&request)).await? {
            Ok(attachment) => {
                let gone = attachment.state == AttachmentState::Detached;
                let first = if gone { FirstLook::Now } else { FirstLook::After(Change::Detaching) };
                Ok(Departure { believed_from: soon, first, ..before })
            }
            Err(e) => match e.class {
                ErrorClass::Ambiguous => {
                    Ok(Departure { believed_from: soon, refusal: Some(e), first: FirstLook::Now, ..before })
                }
                ErrorClass::IncorrectState
                | ErrorClass::AttachmentNotFound
                | ErrorClass::VolumeNotFound
                | ErrorClass::InstanceNotFound
                | ErrorClass::MalformedId => Ok(Departure { refusal: Some(e), first: FirstLook::Now, ..before }),
                _ => Err(refused(&op.what, e)),
            },
        }
    }

    /// Waits until EC2 lists no attachment. When EC2 refused the call and goes on listing one, that is the error.
    async fn end_of(
        &self,
        op: &Op<'_>,
        volume: &VolumeId,
        instance: &InstanceId,
        departure: Departure,
    ) -> Result<(), CloudError> {
        let Departure { believed_from, mut seen, refusal, first } = departure;
        let contradicted_by = Instant::now() + bounds::SETTLE;
        let mut busy_since = None;
        let ended = self
            .watch
            .volume(op, first, volume, |now| {
                let standing = now.as_ref().map_or(Standing::Absent, |v: &Volume| standing(v, instance));
                match standing {
                    Standing::Absent if seen || Instant::now() >= believed_from => return Verdict::Done(None),
                    Standing::Absent => return Verdict::Waiting,
                    Standing::Leaving(a) => {
                        if a.state == AttachmentState::Busy && busy_since.is_none() {
                            busy_since = Some(self.clock.now());
                        }
                    }
                    Standing::Attached(_) | Standing::Arriving(_) => {
                        if refusal.is_some() && Instant::now() >= contradicted_by {
                            return Verdict::Done(Some(()));
                        }
                    }
                }
                seen = true;
                Verdict::Waiting
            })
            .await;
        match (ended, refusal) {
            (Ok(None), _) => Ok(()),
            (Ok(Some(())), Some(error)) => Err(still_listed(op, error)),
            (Ok(Some(())), None) => Err(CloudError::Internal { message: op.what.clone(), cause: None }),
            (Err(CloudError::InProgress { message, cause }), _) => {
                Err(CloudError::InProgress { message: with_busy(message, busy_since), cause })
            }
            (Err(error), _) => Err(error),
        }
    }
}

/// EC2 refused to detach what it goes on listing.
fn still_listed(op: &Op<'_>, error: Ec2Error) -> CloudError {
    let message = format!("{}: EC2 refuses it and yet lists the attachment; try again", op.what);
    let cause = Some(Box::new(error));
    if cause.as_ref().is_some_and(|e| e.class == ErrorClass::Ambiguous) {
        CloudError::OutcomeUnknown { message, cause }
    } else {
        CloudError::FailedPrecondition { message, cause }
    }
}

fn with_busy(message: String, busy_since: Option<SystemTime>) -> String {
    match busy_since {
        None => message,
        Some(since) => format!(
            "{message}; the device is busy since {}: the instance still uses it, unmount it there",
            humantime::format_rfc3339_seconds(since)
        ),
    }
}
