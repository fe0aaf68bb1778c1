//! The call that detaches, and what its answer proves.
//!
//! One more DetachVolume where a describe lists nothing and that proves nothing yet: its refusal names the state itself
//! ([`super::proof`] rule 6). It takes no token from anybody.

use std::time::Duration;

use ebs_calls::{BucketKey, Transition};
use ebs_ec2::{Action, Attachment, Attachments, ClusterNodes, DetachRequest, Ec2, Ec2Error, ErrorClass};
use ebs_types::NodeId;
use tokio::time::Instant;

use super::pairs::Pair;
use super::proof::{end_is_believed_from, is_available, is_same, says_not_attached};
use super::service::AttachmentService;
use crate::call::mutate;
use crate::describe::FirstPoll;
use crate::op::Op;
use crate::refused::refused;
use crate::{CloudError, CloudErrorKind, bounds};

/// What is known before the wait for the end.
pub(super) struct DetachProgress {
    /// From when on "nothing listed" proves that nothing is there.
    pub(super) believed_from: Instant,
    /// Describes sent from then on show what the answer to DetachVolume has changed.
    pub(super) answer_shows_from: Instant,
    /// What EC2 answered, when it refused.
    pub(super) refusal: Option<Ec2Error>,
    pub(super) first: FirstPoll,
    /// EC2 agreed, and may be asked once more for the state itself.
    pub(super) may_ask: bool,
    /// The answer did not say which attachment it ends: the describes after it do.
    pub(super) learns_age: bool,
    /// EC2 takes nothing from the instance any more, which ends by itself and its attachments with it.
    pub(super) instance_ends: bool,
}

impl DetachProgress {
    /// Nothing is known but when EC2 answered: now.
    fn unknown(first: FirstPoll) -> Self {
        let soon = Instant::now() + bounds::SETTLE;
        Self {
            believed_from: soon,
            answer_shows_from: soon,
            refusal: None,
            first,
            may_ask: false,
            learns_age: false,
            instance_ends: false,
        }
    }
}

/// A wait for proof that is shorter than this is not worth a call. With 2 s, the volumes that are left with a wait of 1 to
/// 2 s put the 99th percentile of Unpublish over its target of one second (`docs/performance.md`).
pub(super) const MIN_WAIT_FOR_SPARE_CALL: Duration = Duration::from_millis(500);

pub(super) enum SpareCall {
    Gone,
    /// Nothing is known that was not before, or nothing was asked.
    Inconclusive,
    /// There was an attachment (again), and EC2 has agreed to end it, or may have.
    Detaching(DetachProgress),
}

impl<E: Ec2> AttachmentService<E> {
    /// Asks EC2 at once: no describe would tell more.
    pub(super) async fn call_detach(&self, op: &Op<'_>, pair: &Pair) -> Result<DetachProgress, CloudError> {
        let ec2 = self.context.for_mutation(op);
        let answer = match &pair.node {
            NodeId::Instance(id) => {
                let request = DetachRequest { volume: pair.volume.clone(), instance: id.clone() };
                mutate(op, || ec2.detach_volume(&request)).await?.map(Some)
            }
            NodeId::HyperPod(node) => {
                mutate(op, || ec2.detach_cluster_node_volume(node, &pair.volume)).await?.map(|()| None)
            }
        };
        self.pairs.detach_asked(pair);
        match answer {
            Ok(said) => Ok(self.detach_accepted(op, pair, said.as_ref())),
            Err(error) => self.detach_refused(op, pair, error),
        }
    }

    /// EC2 agreed; SageMaker says no more than that.
    fn detach_accepted(&self, op: &Op<'_>, pair: &Pair, said: Option<&Attachment>) -> DetachProgress {
        let detached = Instant::now();
        let progress = DetachProgress::unknown(FirstPoll::After(Transition::Detaching));
        let known = self.pairs.last_known(pair);
        self.pairs.detaching(pair);
        let Some(said) = said else {
            return DetachProgress { learns_age: !self.context.recent.in_startup_grace(), ..progress };
        };
        let believed_from = end_is_believed_from(detached, said, known, self.context.clock.now());
        if let Some(known) = known.filter(|known| known.is_sure)
            && !is_same(known.attach_time, said.attach_time)
            && believed_from > detached
        {
            self.context.observer.ended_by_time(Action::DetachVolume, &op.what);
        }
        DetachProgress { believed_from, may_ask: true, ..progress }
    }

    fn detach_refused(&self, op: &Op<'_>, pair: &Pair, error: Ec2Error) -> Result<DetachProgress, CloudError> {
        let now = Instant::now();
        let progress = DetachProgress::unknown(FirstPoll::Now);
        if error.class == ErrorClass::Ambiguous {
            self.pairs.detach_unclear(pair);
        }
        let believed_from = match error.class {
            _ if is_available(&error) => now,
            // No better than a describe, where this process knows that there was one.
            _ if says_not_attached(&error) => {
                let known = self.pairs.last_known(pair).map(|known| known.at + bounds::SETTLE);
                known.map_or(now, |from| from.max(now))
            }
            ErrorClass::Ambiguous | ErrorClass::IncorrectState | ErrorClass::IncorrectInstanceState => {
                progress.believed_from
            }
            ErrorClass::Unsupported => return Err(is_of_another_service(op, error)),
            _ => return Err(refused(op, error)),
        };
        let instance_ends = error.class == ErrorClass::IncorrectInstanceState;
        Ok(DetachProgress { believed_from, refusal: Some(error), instance_ends, ..progress })
    }

    /// Asks, if somebody waits and the bucket is believed at least half full.
    pub(super) async fn spare_detach(&self, op: &Op<'_>, pair: &Pair) -> Result<SpareCall, CloudError> {
        // SageMaker names no state.
        let NodeId::Instance(instance) = &pair.node else { return Ok(SpareCall::Inconclusive) };
        if op.still_wanted().is_err() {
            return Ok(SpareCall::Inconclusive);
        }
        let spare = self.context.for_mutation(op).acquired_spare(BucketKey::of(Action::DetachVolume));
        let Some(ec2) = spare else {
            return Ok(SpareCall::Inconclusive);
        };
        let request = DetachRequest { volume: pair.volume.clone(), instance: instance.clone() };
        op.mutates();
        self.context.observer.spared(Action::DetachVolume);
        let answer = ec2.detach_volume(&request).await;
        self.pairs.detach_asked(pair);
        match answer {
            Ok(said) => Ok(SpareCall::Detaching(self.detach_accepted(op, pair, Some(&said)))),
            Err(error) if is_available(&error) => Ok(SpareCall::Gone),
            Err(error) if error.class == ErrorClass::Ambiguous => {
                self.pairs.detaching(pair);
                Ok(SpareCall::Detaching(self.detach_refused(op, pair, error)?))
            }
            Err(_) => Ok(SpareCall::Inconclusive),
        }
    }
}

/// As with the tasks of ECS, and the nodes of HyperPod where EC2 is asked.
fn is_of_another_service(op: &Op<'_>, error: Ec2Error) -> CloudError {
    let message = format!("{op}: another service has attached the volume, and EC2 leaves it to that one to detach it");
    CloudErrorKind::FailedPrecondition.error(message).caused_by(error)
}

/// An earlier operation asked EC2 then and did not see the end. Since then another driver may have attached anew, so
/// that only describes that show a time within this operation prove an end; what the answer has changed they show
/// already.
pub(super) fn already_detaching(since: Instant) -> DetachProgress {
    let answer_shows_from = since + bounds::SETTLE;
    DetachProgress { answer_shows_from, may_ask: true, ..DetachProgress::unknown(FirstPoll::Now) }
}
