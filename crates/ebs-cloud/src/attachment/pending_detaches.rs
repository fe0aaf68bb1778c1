//! The detaches that are still in progress, for metrics and the log.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{AttachmentState, NodeId, VolumeId};
use tokio::time::Instant;

use super::memory::Pair;

/// A detach is no longer pending if no client has requested it for this long.
const FORGOTTEN_AFTER: Duration = Duration::from_mins(15);

/// A detach that a client requested and that is still in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDetach {
    pub volume: VolumeId,
    pub node: NodeId,
    /// The state that EC2 listed last.
    pub state: AttachmentState,
    /// When the first operation began to wait for the detach.
    pub since: Instant,
}

#[derive(Debug)]
struct Entry {
    state: AttachmentState,
    busy_since: Option<Instant>,
    since: Instant,
    seen: Instant,
}

#[derive(Debug, Default)]
pub(crate) struct PendingDetaches(Mutex<HashMap<Pair, Entry>>);

impl PendingDetaches {
    fn live(&self) -> MutexGuard<'_, HashMap<Pair, Entry>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|_, entry| entry.seen.elapsed() < FORGOTTEN_AFTER);
        entries
    }

    pub(crate) fn record_listed(&self, pair: &Pair, state: &AttachmentState) {
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

    /// Returns since when EC2 has listed the attachment as busy, counting earlier operations too.
    pub(crate) fn busy_since(&self, pair: &Pair) -> Option<Instant> {
        self.live().get(pair)?.busy_since
    }

    pub(crate) fn forget(&self, pair: &Pair) {
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

    #[tokio::test(start_paused = true)]
    async fn pending_detach_keeps_its_start_time_across_retries() {
        let pending = PendingDetaches::default();
        let began = Instant::now();
        pending.record_listed(&pair(), &AttachmentState::Detaching);
        tokio::time::advance(Duration::from_mins(5)).await;
        assert_eq!(pending.busy_since(&pair()), None);
        pending.record_listed(&pair(), &AttachmentState::Busy);
        let busy = Instant::now();
        tokio::time::advance(Duration::from_mins(5)).await;
        pending.record_listed(&pair(), &AttachmentState::Busy);
        assert_eq!(pending.busy_since(&pair()), Some(busy));
        let all = pending.all();
        assert_eq!((all[0].state.clone(), all[0].since), (AttachmentState::Busy, began));
        pending.forget(&pair());
        assert_eq!(pending.all(), []);
    }

    #[tokio::test(start_paused = true)]
    async fn detach_without_retries_is_forgotten_after_15_minutes() {
        let pending = PendingDetaches::default();
        pending.record_listed(&pair(), &AttachmentState::Detaching);
        tokio::time::advance(FORGOTTEN_AFTER - Duration::from_secs(1)).await;
        assert_eq!(pending.all().len(), 1);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(pending.all(), []);
    }
}
