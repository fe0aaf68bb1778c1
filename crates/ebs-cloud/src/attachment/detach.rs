//! Detaching a volume from a node. Never forced, and never reported done before it is proven that nothing is attached:
//! what proves it is in [`super::proof`].

use std::time::SystemTime;

use ebs_ec2::{Action, Attachment, Attachments, ClusterNodes, DetachRequest, Ec2, Ec2Error, ErrorClass};
use ebs_types::{NodeId, VolumeId, Waiters};
use tokio::time::Instant;

use super::pairs::Pair;
use super::proof::{believed_by_age, end_is_believed_from, is_attachable, is_available, is_same, says_not_attached};
use super::spare::{Asked, WORTH_A_CALL};
use super::standing::{Standing, standing};
use crate::call::mutate;
use crate::error::refused;
use crate::op::Op;
use crate::wait::{Change, FirstLook, Verdict};
use crate::{Cloud, CloudError, bounds};

/// So many DetachVolume calls may one operation make: an attachment that comes back after EC2 agreed to end it is odd.
const MOST_CALLS: u32 = 3;

/// What is known before the wait for the end.
pub(super) struct Departure {
    /// From when on "nothing listed" proves that nothing is there.
    believed_from: Instant,
    /// Looks sent from then on show what the answer to DetachVolume has changed.
    answer_shows_from: Instant,
    /// What EC2 answered, when it refused.
    refusal: Option<Ec2Error>,
    /// When to look for the first time.
    first: FirstLook,
    /// EC2 agreed, and may be asked once more for the state itself.
    may_ask: bool,
    /// The answer did not say which attachment it ends: the looks after it do.
    learns_age: bool,
}

impl Departure {
    /// Nothing is known but when EC2 answered: now.
    fn unknown(first: FirstLook) -> Self {
        let soon = Instant::now() + bounds::SETTLE;
        Self { believed_from: soon, answer_shows_from: soon, refusal: None, first, may_ask: false, learns_age: false }
    }
}

/// What the wait ended with.
enum End {
    Gone,
    /// EC2 lists an attachment that is not on its way out, although it would show one that is.
    StillAttached,
    /// EC2 lists nothing, which proves nothing for a while yet.
    Unlisted,
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
        // Before our own call, which proves nothing of the time before it.
        let has_served = self.ec2.has_changed_within(bounds::SETTLE) && !self.recent.is_young();
        if let Some(settled) = self.pairs.unclear_until(&pair) {
            // Its call may still be on the way.
            op.sleep_until(settled).await?;
        }
        let mut departure = match self.pairs.leaving_since(&pair) {
            Some(since) => already_leaving(since),
            None => self.begin_detach(&op, &pair).await?,
        };
        if departure.refusal.as_ref().is_some_and(is_attachable)
            && let Some(until) = self.late_attach_until(&pair, has_served)
        {
            // An attach of another process may still be on the way.
            op.sleep_until(until).await?;
            departure = self.begin_detach(&op, &pair).await?;
        }
        self.see_it_gone(&op, &pair, departure).await?;
        self.pending_detaches.ended(&pair);
        self.pairs.gone(&pair);
        self.devices.release(pair.node.instance(), &pair.volume);
        self.instances.take_out(pair.node.instance(), &pair.volume);
        Ok(())
    }

    async fn see_it_gone(&self, op: &Op<'_>, pair: &Pair, mut departure: Departure) -> Result<(), CloudError> {
        let mut calls = 1;
        loop {
            match (self.end_of(op, pair, &departure).await?, departure.refusal.take()) {
                (End::Gone, _) => return Ok(()),
                (End::Unlisted, _) => {
                    departure.may_ask = false;
                    departure.first = FirstLook::Now;
                    match self.ask_once_more(op, pair).await? {
                        Asked::Gone => return Ok(()),
                        Asked::Nothing => {}
                        Asked::Departs(next) => (departure, calls) = (Departure { may_ask: false, ..next }, calls + 1),
                    }
                }
                (End::StillAttached, Some(error)) if calls >= MOST_CALLS || !says_not_attached(&error) => {
                    return Err(still_listed(op, error));
                }
                (End::StillAttached, None) if calls >= MOST_CALLS => return Err(comes_back(op)),
                // It came back, or it was refused as missing and is there: that answer was from before it.
                (End::StillAttached, _) => {
                    calls += 1;
                    departure = self.begin_detach(op, pair).await?;
                }
            }
        }
    }

    /// Until when an AttachVolume of another process may still be carried out, when EC2 says that nothing is attached.
    /// What this process attached itself it knows of; and while it is the one that serves, nobody else attaches
    /// (`decisions.md` D-27).
    fn late_attach_until(&self, pair: &Pair, has_served: bool) -> Option<Instant> {
        if self.pairs.last_known(pair).is_some_and(|known| known.is_sure) {
            return None;
        }
        let since = match self.pairs.denied_since(pair) {
            Some(since) => since,
            None if has_served => return None,
            None => self.pairs.denied(pair),
        };
        Some(since + bounds::SETTLE).filter(|until| *until > Instant::now())
    }

    /// Asks EC2 at once: no look would tell more.
    async fn begin_detach(&self, op: &Op<'_>, pair: &Pair) -> Result<Departure, CloudError> {
        let answer = match &pair.node {
            NodeId::Instance(id) => {
                let request = DetachRequest { volume: pair.volume.clone(), instance: id.clone() };
                mutate(op, || self.ec2.detach_volume(&request)).await?.map(Some)
            }
            NodeId::HyperPod(node) => {
                mutate(op, || self.ec2.detach_cluster_node_volume(node, &pair.volume)).await?.map(|()| None)
            }
        };
        self.pairs.detach_asked(pair);
        match answer {
            Ok(said) => Ok(self.departs(op, pair, said.as_ref())),
            Err(error) => self.not_departing(op, pair, error),
        }
    }

    /// EC2 agreed; SageMaker says no more than that.
    pub(super) fn departs(&self, op: &Op<'_>, pair: &Pair, said: Option<&Attachment>) -> Departure {
        let detached = Instant::now();
        let departure = Departure::unknown(FirstLook::After(Change::Detaching));
        let known = self.pairs.last_known(pair);
        self.pairs.leaving(pair);
        let Some(said) = said else { return Departure { learns_age: !self.recent.is_young(), ..departure } };
        let believed_from = end_is_believed_from(detached, said, known, self.clock.now());
        if let Some(known) = known.filter(|known| known.is_sure)
            && !is_same(known.attach_time, said.attach_time)
            && believed_from > detached
        {
            self.witness.ended_by_time(Action::DetachVolume, &op.what);
        }
        Departure { believed_from, may_ask: true, ..departure }
    }

    /// EC2 refused, or its answer was lost.
    pub(super) fn not_departing(&self, op: &Op<'_>, pair: &Pair, error: Ec2Error) -> Result<Departure, CloudError> {
        let now = Instant::now();
        let departure = Departure::unknown(FirstLook::Now);
        let believed_from = match error.class {
            _ if is_available(&error) => now,
            // No better than a look, where this process knows that there was one.
            _ if says_not_attached(&error) => {
                let known = self.pairs.last_known(pair).map(|known| known.at + bounds::SETTLE);
                known.map_or(now, |from| from.max(now))
            }
            ErrorClass::Ambiguous | ErrorClass::IncorrectState => departure.believed_from,
            _ => return Err(refused(&op.what, error)),
        };
        Ok(Departure { believed_from, refusal: Some(error), ..departure })
    }

    /// Waits until it is proven that nothing is attached, or that the answer to DetachVolume did not end it.
    async fn end_of(&self, op: &Op<'_>, pair: &Pair, departure: &Departure) -> Result<End, CloudError> {
        let mut believed_from = departure.believed_from;
        let known = self.pairs.last_known(pair).and_then(|known| known.attach_time);
        let ended = self
            .watch
            .volume(op, departure.first, &pair.volume, |seen, sent| {
                let now = Instant::now();
                let standing = seen.as_ref().map_or(Standing::Absent, |volume| standing(volume, &pair.node));
                if let Some(attachment) = standing.listed() {
                    self.pending_detaches.still(pair, &attachment.state);
                }
                match standing {
                    Standing::Absent if sent >= believed_from => return Verdict::Done(End::Gone),
                    Standing::Absent if departure.may_ask && believed_from > now + WORTH_A_CALL => {
                        return Verdict::Done(End::Unlisted);
                    }
                    Standing::Attached(_) | Standing::Arriving(_) if sent >= departure.answer_shows_from => {
                        return Verdict::Done(End::StillAttached);
                    }
                    Standing::Leaving(a) if departure.learns_age => {
                        let is_it = known.is_none() || is_same(known, a.attach_time);
                        if let Some(from) = believed_by_age(now, &a, self.clock.now()).filter(|_| is_it) {
                            believed_from = believed_from.min(from);
                        }
                    }
                    Standing::Absent | Standing::Leaving(_) | Standing::Attached(_) | Standing::Arriving(_) => {}
                }
                Verdict::Waiting
            })
            .await;
        ended.map_err(|error| match error {
            CloudError::InProgress { message, cause } => {
                let busy_for = self.pending_detaches.busy_since(pair).map(|since| since.elapsed());
                let busy_since = busy_for.map(|time| self.clock.now() - time);
                CloudError::InProgress { message: with_busy(message, busy_since), cause }
            }
            other => other,
        })
    }
}

/// An earlier operation asked EC2 then and did not see the end. Since then another driver may have attached anew, so
/// that only looks that show a time within this operation prove an end; what the answer has changed they show already.
fn already_leaving(since: Instant) -> Departure {
    let answer_shows_from = since + bounds::SETTLE;
    Departure { answer_shows_from, may_ask: true, ..Departure::unknown(FirstLook::Now) }
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
