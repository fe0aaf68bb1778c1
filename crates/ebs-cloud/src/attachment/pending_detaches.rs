//! Which detachments are waited for, for those who watch the driver.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::AttachmentState;
use ebs_types::{NodeId, VolumeId};
use tokio::time::Instant;

use super::pairs::Pair;

/// One that nobody has asked for again for so long is not waited for any more.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(15);

/// A detachment that was asked for and has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDetach {
    pub volume: VolumeId,
    pub node: NodeId,
    /// EC2's last word on the attachment.
    pub state: AttachmentState,
    /// Since when it is waited for, over all operations that did.
    pub since: Instant,
}

#[derive(Debug)]
struct Entry {
    state: AttachmentState,
    busy_since: Option<Instant>,
    since: Instant,
    seen: Instant,
}

/// All detachments that were asked for and have not ended.
#[derive(Debug, Default)]
pub(crate) struct PendingDetaches(Mutex<HashMap<Pair, Entry>>);

impl PendingDetaches {
    fn live(&self) -> MutexGuard<'_, HashMap<Pair, Entry>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| entry.seen.elapsed() < FORGOTTEN_AFTER);
        entries
    }

    /// EC2 still lists the attachment.
    pub(crate) fn still(&self, pair: &Pair, state: &AttachmentState) {
        let now = Instant::now();
        let mut entries = self.live();
        let entry = entries.entry(pair.clone()).or_insert(Entry {
            state: state.clone(),
            busy_since: None,
            since: now,
            seen: now,
        });
        (entry.state, entry.seen) = (state.clone(), now);
        entry.busy_since = (*state == AttachmentState::Busy).then(|| entry.busy_since.unwrap_or(now));
    }

    /// Since when EC2 calls it busy, over all operations that looked.
    pub(crate) fn busy_since(&self, pair: &Pair) -> Option<Instant> {
        self.live().get(pair)?.busy_since
    }

    pub(crate) fn ended(&self, pair: &Pair) {
        self.live().remove(pair);
    }

    pub(crate) fn all(&self) -> Vec<PendingDetach> {
        let of = |(pair, entry): (&Pair, &Entry)| PendingDetach {
            volume: pair.volume.clone(),
            node: pair.node.clone(),
            state: entry.state.clone(),
            since: entry.since,
        };
        self.live().iter().map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> Pair {
        Pair { volume: VolumeId::parse("vol-1").unwrap(), node: NodeId::parse("i-1").unwrap() }
    }

    /// A detachment counts as pending over all operations that waited for it, until it ends or nobody asks for 15
    /// minutes.
    #[tokio::test(start_paused = true)]
    async fn a_detachment_is_pending_from_the_first_describe_over_all_retries_until_it_ends() {
        let pending = PendingDetaches::default();
        let began = Instant::now();
        pending.still(&pair(), &AttachmentState::Detaching);
        tokio::time::advance(Duration::from_mins(5)).await;
        assert_eq!(pending.busy_since(&pair()), None);
        pending.still(&pair(), &AttachmentState::Busy);
        let busy = Instant::now();
        tokio::time::advance(Duration::from_mins(5)).await;
        pending.still(&pair(), &AttachmentState::Busy);
        assert_eq!(pending.busy_since(&pair()), Some(busy));
        let all = pending.all();
        assert_eq!((all[0].state.clone(), all[0].since), (AttachmentState::Busy, began));
        pending.ended(&pair());
        assert_eq!(pending.all(), []);
    }

    /// A detachment that nobody asks for again is forgotten after 15 minutes.
    #[tokio::test(start_paused = true)]
    async fn one_that_nobody_asks_for_again_is_forgotten_after_fifteen_minutes() {
        let pending = PendingDetaches::default();
        pending.still(&pair(), &AttachmentState::Detaching);
        tokio::time::advance(FORGOTTEN_AFTER - Duration::from_secs(1)).await;
        assert_eq!(pending.all().len(), 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pending.all(), []);
    }
}
