//! What was changed so recently that a look may not show it yet.

use ebs_types::{SnapshotId, VolumeId};
use tokio::time::Instant;

use crate::bounds::SETTLE;
use crate::expiring::Expiring;

/// What a mutating call may have brought about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Mark {
    /// A volume of that name.
    VolumeName(String),
    /// A snapshot of that name.
    SnapshotName(String),
    /// A modification of that volume.
    Modification(VolumeId),
    /// The end of that volume.
    Deletion(VolumeId),
    /// The end of that snapshot.
    SnapshotDeletion(SnapshotId),
}

/// Remembers mutating calls for [`SETTLE`].
#[derive(Debug)]
pub(crate) struct Recent {
    since: Instant,
    marks: Expiring<Mark, Instant>,
}

impl Recent {
    /// The process starts: what one before it did in its last seconds is unknown.
    pub(crate) fn new() -> Self {
        Self { since: Instant::now(), marks: Expiring::default() }
    }

    /// A call was accepted, or may have been.
    pub(crate) fn note(&self, mark: Mark) {
        self.marks.insert(mark, Instant::now() + SETTLE, SETTLE);
    }

    /// True when such a call was made within the last [`SETTLE`].
    pub(crate) fn is_marked(&self, mark: &Mark) -> bool {
        self.marks.get(mark).is_some()
    }

    /// From when on an absence is a proof, as far as this process knows.
    pub(crate) fn settled_at(&self, mark: &Mark) -> Instant {
        self.marks.get(mark).unwrap_or(self.since)
    }

    /// True while what a process before this one had under way may still take effect.
    pub(crate) fn is_young(&self) -> bool {
        Instant::now() < self.grown_up_at()
    }

    /// From when on all that has taken effect or never will.
    pub(crate) fn grown_up_at(&self) -> Instant {
        self.since + SETTLE
    }

    /// As [`Recent::settled_at`], counting the start of the process as a mutating call: another process may have made
    /// one just before.
    pub(crate) fn settled_for_all_at(&self, mark: &Mark) -> Instant {
        self.settled_at(mark).max(self.grown_up_at())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_absence_is_no_proof_until_fifteen_seconds_after_the_call() {
        let recent = Recent::new();
        let mark = Mark::VolumeName("a".into());
        tokio::time::advance(Duration::from_secs(100)).await;
        assert!(recent.settled_at(&mark) <= Instant::now());
        recent.note(mark.clone());
        assert_eq!(recent.settled_at(&mark), Instant::now() + SETTLE);
        tokio::time::advance(Duration::from_secs(15)).await;
        assert!(recent.settled_at(&mark) <= Instant::now());
    }

    #[tokio::test(start_paused = true)]
    async fn what_a_former_process_did_counts_for_the_first_fifteen_seconds() {
        let recent = Recent::new();
        let mark = Mark::SnapshotName("a".into());
        assert_eq!(recent.settled_for_all_at(&mark), Instant::now() + SETTLE);
        assert_eq!(recent.settled_at(&mark), Instant::now());
    }
}
