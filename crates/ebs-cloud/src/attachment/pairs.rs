//! The attachments that this process knows of, for the time in which describes may be stale. The memory ends with the
//! process. Describes then need up to 15 s for the same proof.

use std::time::{Duration, SystemTime};

use ebs_calls::Expiring;
use ebs_types::{NodeId, VolumeId};
use tokio::time::Instant;

use super::proof::{Existed, Expected, is_same};
use crate::bounds::SETTLE;

/// How long the memory keeps an attachment that was made or listed.
const EXISTED_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// How long the memory keeps a call of unknown outcome.
const UNFINISHED_LIFETIME: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) volume: VolumeId,
    pub(crate) node: NodeId,
}

/// The memory of pairs. A retry uses what the earlier attempts learnt, so that a client with short timeouts gets its
/// proof after several attempts.
#[derive(Debug, Default)]
pub(crate) struct PairMemory {
    existed: Expiring<Pair, Existed>,
    unclear: Expiring<Pair, Instant>,
    detaching: Expiring<Pair, Instant>,
    detach_asked: Expiring<Pair, Instant>,
    detach_unclear: Expiring<Pair, Instant>,
}

impl PairMemory {
    /// Records that EC2 accepted an attach call, or may have accepted it.
    pub(crate) fn attach_called(&self, pair: &Pair, expected: &Expected) {
        self.detaching.remove(pair);
        if expected.certain {
            self.existed(pair, expected.attach_time);
        } else {
            self.unclear.insert(pair.clone(), expected.settled, UNFINISHED_LIFETIME);
        }
    }

    /// Returns until when EC2 may still carry out an attach call that got no answer. `None` once a describe showed the
    /// outcome.
    pub(crate) fn unclear_until(&self, pair: &Pair) -> Option<Instant> {
        self.unclear.get(pair)
    }

    /// Records that the attachment exists now. Keeps the earliest instant at which it is known to have existed.
    pub(crate) fn existed(&self, pair: &Pair, attach_time: Option<SystemTime>) {
        self.unclear.remove(pair);
        self.detaching.remove(pair);
        let earlier = self.existed.get(pair).filter(|known| is_same(known.attach_time, attach_time));
        let at = earlier.map_or_else(Instant::now, |known| known.at);
        self.existed.insert(pair.clone(), Existed { attach_time, at, is_sure: true }, EXISTED_LIFETIME);
    }

    /// Records that a describe sent at `sent` listed the attachment. It existed then, and may have ended since. Returns
    /// what is known of it.
    pub(crate) fn listed(&self, pair: &Pair, attach_time: Option<SystemTime>, sent: Instant) -> Existed {
        let seen = Existed { attach_time, at: sent, is_sure: false };
        match self.existed.get(pair) {
            Some(known) if is_same(known.attach_time, attach_time) => known,
            // A describe of an earlier attachment does not change the memory of a later one.
            Some(known) if known.attach_time > attach_time => seen,
            _ => {
                self.existed.insert(pair.clone(), seen, EXISTED_LIFETIME);
                seen
            }
        }
    }

    /// Returns the last attachment of the pair that this process knows of.
    pub(crate) fn last_known(&self, pair: &Pair) -> Option<Existed> {
        self.existed.get(pair)
    }

    /// Records that EC2 accepted a detach, or may have accepted it.
    pub(crate) fn detaching(&self, pair: &Pair) {
        self.unclear.remove(pair);
        self.detaching.insert(pair.clone(), Instant::now(), UNFINISHED_LIFETIME);
    }

    /// Returns when EC2 accepted the detach, unless its end or a later attachment was seen since.
    pub(crate) fn detaching_since(&self, pair: &Pair) -> Option<Instant> {
        self.detaching.get(pair)
    }

    /// Records that EC2 answered a DetachVolume, with success or an error. The memory keeps it for [`SETTLE`], in which
    /// describes may not show the effect, even after the end or another attachment was seen.
    pub(crate) fn detach_asked(&self, pair: &Pair) {
        self.detach_asked.insert(pair.clone(), Instant::now(), SETTLE);
    }

    /// Returns when EC2 answered the last DetachVolume, within [`SETTLE`].
    pub(crate) fn detach_asked_at(&self, pair: &Pair) -> Option<Instant> {
        self.detach_asked.get(pair)
    }

    /// Records a DetachVolume without an answer. EC2 may carry it out at any time within [`SETTLE`], even on a new
    /// attachment.
    pub(crate) fn detach_unclear(&self, pair: &Pair) {
        self.detach_unclear.insert(pair.clone(), Instant::now() + SETTLE, SETTLE);
    }

    /// Returns until when EC2 may carry out such a DetachVolume.
    pub(crate) fn late_detach_until(&self, pair: &Pair) -> Option<Instant> {
        self.detach_unclear.get(pair)
    }

    pub(crate) fn gone(&self, pair: &Pair) {
        self.existed.remove(pair);
        self.unclear.remove(pair);
        self.detaching.remove(pair);
    }
}
