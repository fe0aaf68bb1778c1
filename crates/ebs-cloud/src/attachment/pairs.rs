//! What this process knows of attachments: what no describe can tell in time. It is forgotten with the process; then
//! describes need up to 15 s to prove the same.

use std::time::{Duration, SystemTime};

use ebs_calls::Expiring;
use ebs_types::{NodeId, VolumeId};
use tokio::time::Instant;

use super::proof::{Existed, Expected, is_same};
use crate::bounds::SETTLE;

/// For how long an attachment that was made or seen is remembered.
const EXISTED_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// For how long a call whose end is not known yet is remembered.
const UNFINISHED_LIFETIME: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) volume: VolumeId,
    pub(crate) node: NodeId,
}

/// Memory of pairs. What one attempt has learnt the next one uses, so that a client that never waits long enough for
/// a proof gets it from the attempts before.
#[derive(Debug, Default)]
pub(crate) struct PairMemory {
    existed: Expiring<Pair, Existed>,
    unclear: Expiring<Pair, Instant>,
    detaching: Expiring<Pair, Instant>,
    detach_asked: Expiring<Pair, Instant>,
    detach_unclear: Expiring<Pair, Instant>,
}

impl PairMemory {
    /// The call to attach was accepted, or may have been.
    pub(crate) fn attach_called(&self, pair: &Pair, expected: &Expected) {
        self.detaching.remove(pair);
        if expected.certain {
            self.existed(pair, expected.attach_time);
        } else {
            self.unclear.insert(pair.clone(), expected.settled, UNFINISHED_LIFETIME);
        }
    }

    /// The call to attach got no answer, and no describe has shown yet what became of it: until when it may still be
    /// carried out.
    pub(crate) fn unclear_until(&self, pair: &Pair) -> Option<Instant> {
        self.unclear.get(pair)
    }

    /// There is such an attachment now. The earliest instant at which it is known to have existed is kept.
    pub(crate) fn existed(&self, pair: &Pair, attach_time: Option<SystemTime>) {
        self.unclear.remove(pair);
        self.detaching.remove(pair);
        let earlier = self.existed.get(pair).filter(|known| is_same(known.attach_time, attach_time));
        let at = earlier.map_or_else(Instant::now, |known| known.at);
        self.existed.insert(pair.clone(), Existed { attach_time, at, is_sure: true }, EXISTED_LIFETIME);
    }

    /// A describe sent then listed such an attachment, which proves that there was one and not that it is there now.
    /// Returns what is known of it.
    pub(crate) fn listed(&self, pair: &Pair, attach_time: Option<SystemTime>, sent: Instant) -> Existed {
        let seen = Existed { attach_time, at: sent, is_sure: false };
        match self.existed.get(pair) {
            Some(known) if is_same(known.attach_time, attach_time) => known,
            // A describe that shows an earlier time takes nothing from what is known of a later one.
            Some(known) if known.attach_time > attach_time => seen,
            _ => {
                self.existed.insert(pair.clone(), seen, EXISTED_LIFETIME);
                seen
            }
        }
    }

    /// The last attachment of the pair that this process knows of.
    pub(crate) fn last_known(&self, pair: &Pair) -> Option<Existed> {
        self.existed.get(pair)
    }

    /// EC2 agreed to detach, or may have.
    pub(crate) fn detaching(&self, pair: &Pair) {
        self.unclear.remove(pair);
        self.detaching.insert(pair.clone(), Instant::now(), UNFINISHED_LIFETIME);
    }

    /// When it did so, unless the end was seen since, or an attachment that was made after it.
    pub(crate) fn detaching_since(&self, pair: &Pair) -> Option<Instant> {
        self.detaching.get(pair)
    }

    /// EC2 has answered a DetachVolume, whatever it said. Known for as long as describes may not show what it changed,
    /// also when the end was seen or another attachment was made since.
    pub(crate) fn detach_asked(&self, pair: &Pair) {
        self.detach_asked.insert(pair.clone(), Instant::now(), SETTLE);
    }

    /// When it did so last, within [`SETTLE`].
    pub(crate) fn detach_asked_at(&self, pair: &Pair) -> Option<Instant> {
        self.detach_asked.get(pair)
    }

    /// A DetachVolume got no answer. EC2 may carry it out at any time within [`SETTLE`], also on an attachment that is made
    /// meanwhile.
    pub(crate) fn detach_unclear(&self, pair: &Pair) {
        self.detach_unclear.insert(pair.clone(), Instant::now() + SETTLE, SETTLE);
    }

    /// Until when such a call may be carried out.
    pub(crate) fn late_detach_until(&self, pair: &Pair) -> Option<Instant> {
        self.detach_unclear.get(pair)
    }

    pub(crate) fn gone(&self, pair: &Pair) {
        self.existed.remove(pair);
        self.unclear.remove(pair);
        self.detaching.remove(pair);
    }
}
