//! What this process knows of attachments: what no look can tell in time. It is forgotten with the process; then
//! looks need up to 15 s to prove the same.

use std::time::{Duration, SystemTime};

use ebs_types::{NodeId, VolumeId};
use tokio::time::Instant;

use super::proof::{Existed, Expected, is_same};
use crate::expiring::Expiring;

/// For how long an attachment that was made or seen is remembered.
const EXISTED_LIFETIME: Duration = Duration::from_secs(24 * 3600);
/// For how long a call whose end is not known yet is remembered.
const UNFINISHED_LIFETIME: Duration = Duration::from_secs(3600);

/// A volume and a node.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Pair {
    pub(crate) volume: VolumeId,
    pub(crate) node: NodeId,
}

/// Memory of pairs.
#[derive(Debug, Default)]
pub(crate) struct PairMemory {
    existed: Expiring<Pair, Existed>,
    unclear: Expiring<Pair, Instant>,
    leaving: Expiring<Pair, ()>,
}

impl PairMemory {
    /// The call to attach was accepted, or may have been.
    pub(crate) fn arriving(&self, pair: &Pair, expected: &Expected) {
        self.leaving.remove(pair);
        if expected.certain {
            self.existed(pair, expected.attach_time);
        } else {
            self.unclear.insert(pair.clone(), expected.settled, UNFINISHED_LIFETIME);
        }
    }

    /// The call to attach got no answer, and no look has shown yet what became of it.
    pub(crate) fn is_unclear(&self, pair: &Pair) -> bool {
        self.unclear.get(pair).is_some()
    }

    /// Until when such a call may still be carried out.
    pub(crate) fn unclear_until(&self, pair: &Pair) -> Option<Instant> {
        self.unclear.get(pair)
    }

    /// There is such an attachment now. The earliest instant at which it is known to have existed is kept.
    pub(crate) fn existed(&self, pair: &Pair, attach_time: Option<SystemTime>) {
        self.unclear.remove(pair);
        let earlier = self.existed.get(pair).filter(|known| is_same(known.attach_time, attach_time));
        let existed = earlier.unwrap_or(Existed { attach_time, at: Instant::now() });
        self.existed.insert(pair.clone(), existed, EXISTED_LIFETIME);
    }

    /// The last attachment of the pair that this process knows of.
    pub(crate) fn last_known(&self, pair: &Pair) -> Option<Existed> {
        self.existed.get(pair)
    }

    /// EC2 agreed to detach, or may have.
    pub(crate) fn leaving(&self, pair: &Pair) {
        self.unclear.remove(pair);
        self.leaving.insert(pair.clone(), (), UNFINISHED_LIFETIME);
    }

    /// The same, when an earlier operation asked for it and has not seen the end.
    pub(crate) fn is_leaving(&self, pair: &Pair) -> bool {
        self.leaving.get(pair).is_some()
    }

    /// There is no such attachment (any more).
    pub(crate) fn gone(&self, pair: &Pair) {
        self.existed.remove(pair);
        self.unclear.remove(pair);
        self.leaving.remove(pair);
    }
}
