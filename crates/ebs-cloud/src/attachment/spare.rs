//! One more DetachVolume where a describe lists nothing and that proves nothing yet: its refusal names the state itself
//! (`decisions.md` D-26, [`super::proof`] rule 6). It takes no token from anybody.

use std::time::Duration;

use ebs_ec2::{Action, Attachments, DetachRequest, Ec2, ErrorClass};
use ebs_types::NodeId;

use super::detach::DetachProgress;
use super::pairs::Pair;
use super::proof::is_available;
use crate::op::Op;
use crate::throttle::{BucketKey, CallContext};
use crate::{Cloud, CloudError};

/// A wait for proof that is shorter than this is not worth a call. D-26 says 2 s; with those, the volumes that are left
/// with 1 to 2 s of it put the 99th percentile of Unpublish over the second that D-24 allows (`docs/performance.md`).
pub(super) const MIN_WAIT_FOR_SPARE_CALL: Duration = Duration::from_millis(500);

/// What came of it.
pub(super) enum SpareCall {
    /// Nothing is attached.
    Gone,
    /// Nothing is known that was not before, or nothing was asked.
    Inconclusive,
    /// There was an attachment (again), and EC2 has agreed to end it, or may have.
    Detaching(DetachProgress),
}

impl<E: Ec2> Cloud<E> {
    /// Asks, if somebody waits and the bucket is believed at least half full.
    pub(super) async fn spare_detach(&self, op: &Op<'_>, pair: &Pair) -> Result<SpareCall, CloudError> {
        // SageMaker names no state.
        let NodeId::Instance(instance) = &pair.node else { return Ok(SpareCall::Inconclusive) };
        if op.still_wanted().is_err() {
            return Ok(SpareCall::Inconclusive);
        }
        let Some(permit) = self.ec2.limiter().acquire_spare(BucketKey::of(Action::DetachVolume)) else {
            return Ok(SpareCall::Inconclusive);
        };
        let request = DetachRequest { volume: pair.volume.clone(), instance: instance.clone() };
        op.mutates();
        self.observer.spared(Action::DetachVolume);
        let answer = CallContext::mutation(op).scope(permit.scope(self.ec2.detach_volume(&request))).await;
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
