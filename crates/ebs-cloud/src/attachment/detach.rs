//! Detaching a volume from a node. Never forced, and never reported done before it is proven that nothing is attached:
//! what proves it is in [`super::proof`].

use std::time::SystemTime;

use ebs_ec2::{AttachmentState, Attachments, ClusterNodes, DetachRequest, Ec2, Ec2Error, ErrorClass};
use ebs_types::{NodeId, VolumeId, Waiters};
use tokio::time::{Instant, sleep_until};

use super::pairs::Pair;
use super::proof::{end_is_believed_from, is_attachable, says_not_attached};
use super::standing::{Standing, standing};
use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::wait::{Change, FirstLook, Verdict};
use crate::{Cloud, CloudError, bounds};

/// So many DetachVolume calls may one operation make: an attachment that comes back after EC2 agreed to end it is odd.
const MOST_CALLS: u32 = 3;

/// What is known before the wait for the end.
struct Departure {
    /// From when on "nothing listed" proves that nothing is there.
    believed_from: Instant,
    /// Looks sent from then on show what the answer to DetachVolume has changed.
    answer_shows_from: Instant,
    /// What EC2 answered, when it refused.
    refusal: Option<Ec2Error>,
    /// When to look for the first time.
    first: FirstLook,
}

/// What the wait ended with.
enum End {
    Gone,
    /// EC2 lists an attachment that is not on its way out, although it would show one that is.
    StillAttached,
}

impl<E: Ec2> Cloud<E> {
    /// Sees to it that EC2 lists no attachment of the volume to the node. Never forced.
    ///
    /// # Errors
    /// [`CloudError::InProgress`] when the device stays busy.
    pub async fn detach(&self, volume: &VolumeId, node: &NodeId, waiters: &Waiters) -> Result<(), CloudError> {
        let pair = Pair { volume: volume.clone(), node: node.clone() };
        let op = Op::start(format!("detach {volume} from {node}"), bounds::DETACH, waiters);
        op.still_wanted()?;
        if let Some(settled) = self.pairs.unclear_until(&pair) {
            // Its call may still be on the way.
            sleep_until(settled).await;
        }
        let mut departure =
            if self.pairs.is_leaving(&pair) { already_leaving() } else { self.begin_detach(&op, &pair).await? };
        if departure.refusal.as_ref().is_some_and(is_attachable) && self.recent.is_young() {
            // An attach of the process before this one may still be on the way.
            sleep_until(self.recent.grown_up_at()).await;
            departure = self.begin_detach(&op, &pair).await?;
        }
        let mut calls = 1;
        loop {
            let (end, refusal) = (self.end_of(&op, &pair, &departure).await?, departure.refusal);
            match (end, refusal) {
                (End::Gone, _) => break,
                (End::StillAttached, Some(error)) => return Err(still_listed(&op, error)),
                (End::StillAttached, None) if calls >= MOST_CALLS => return Err(comes_back(&op)),
                (End::StillAttached, None) => {
                    calls += 1;
                    departure = self.begin_detach(&op, &pair).await?;
                }
            }
        }
        self.pending_detaches.ended(&pair);
        self.pairs.gone(&pair);
        self.devices.release(pair.node.instance(), &pair.volume);
        self.instances.take_out(pair.node.instance(), &pair.volume);
        Ok(())
    }

    /// Asks EC2 at once: its answer is about what is, and no look would tell more.
    async fn begin_detach(&self, op: &Op<'_>, pair: &Pair) -> Result<Departure, CloudError> {
        let answer = match &pair.node {
            NodeId::Instance(id) => {
                let request = DetachRequest { volume: pair.volume.clone(), instance: id.clone() };
                mutate(op, || self.ec2.detach_volume(&request)).await?.map(|a| a.attach_time)
            }
            NodeId::HyperPod(node) => {
                mutate(op, || self.ec2.detach_cluster_node_volume(node, &pair.volume)).await?.map(|_| None)
            }
        };
        let now = Instant::now();
        let soon = now + bounds::SETTLE;
        let error = match answer {
            Ok(attach_time) => {
                let known = self.pairs.last_known(pair);
                let believed_from = end_is_believed_from(now, attach_time, known, self.clock.now());
                self.pairs.leaving(pair);
                let first = FirstLook::After(Change::Detaching);
                return Ok(Departure { believed_from, answer_shows_from: soon, refusal: None, first });
            }
            Err(error) => error,
        };
        match error.class {
            ErrorClass::Ambiguous
            | ErrorClass::IncorrectState
            | ErrorClass::AttachmentNotFound
            | ErrorClass::VolumeNotFound
            | ErrorClass::InstanceNotFound
            | ErrorClass::MalformedId => {
                let believed_from = if says_not_attached(&error) { now } else { soon };
                let first = FirstLook::Now;
                Ok(Departure { believed_from, answer_shows_from: soon, refusal: Some(error), first })
            }
            _ => Err(refused(&op.what, error)),
        }
    }

    /// Waits until it is proven that nothing is attached, or that the answer to DetachVolume did not end it.
    async fn end_of(&self, op: &Op<'_>, pair: &Pair, departure: &Departure) -> Result<End, CloudError> {
        let mut busy_since = None;
        let ended = self
            .watch
            .volume(op, departure.first, &pair.volume, |seen, sent| {
                let standing = seen.as_ref().map_or(Standing::Absent, |volume| standing(volume, &pair.node));
                if let Some(attachment) = standing.listed() {
                    self.pending_detaches.still(pair, &attachment.state);
                }
                match standing {
                    Standing::Absent if sent >= departure.believed_from => return Verdict::Done(End::Gone),
                    Standing::Attached(_) | Standing::Arriving(_) if sent >= departure.answer_shows_from => {
                        return Verdict::Done(End::StillAttached);
                    }
                    Standing::Leaving(a) if a.state == AttachmentState::Busy => {
                        busy_since.get_or_insert_with(|| self.clock.now());
                    }
                    Standing::Absent | Standing::Leaving(_) | Standing::Attached(_) | Standing::Arriving(_) => {}
                }
                Verdict::Waiting
            })
            .await;
        ended.map_err(|error| match error {
            CloudError::InProgress { message, cause } => {
                CloudError::InProgress { message: with_busy(message, busy_since), cause }
            }
            other => other,
        })
    }
}

/// An earlier operation asked EC2 and did not see the end. Since then another driver may have attached anew, so only
/// looks that show a time within this operation count.
fn already_leaving() -> Departure {
    let soon = Instant::now() + bounds::SETTLE;
    Departure { believed_from: soon, answer_shows_from: soon, refusal: None, first: FirstLook::Now }
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

fn comes_back(op: &Op<'_>) -> CloudError {
    let message = format!("{}: EC2 agrees to it and yet goes on listing the attachment; try again", op.what);
    CloudError::InProgress { message, cause: None }
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
