//! The memory of recent changes, which describes may not show yet.
//!
//! Decision: `docs/decisions/0006-assume-stale-reads-and-a-previous-leader.md`.

use std::hash::Hash;
use std::time::Duration;

use ebs_calls::Expiring;
use ebs_types::{ConnectionId, SnapshotId, VolumeId, Waiters};
use tokio::time::Instant;

use crate::Object;
use crate::bounds::SETTLE;
use crate::lease_terms::{LeaseTerms, Sidecar};

/// How long to remember since when an object is known, and that a name is unused. A later request waits or describes
/// again.
const MEMORY: Duration = Duration::from_secs(3600);

/// A possible effect of a mutating call.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    VolumeName(String),
    SnapshotName(String),
    Modification(VolumeId),
    Deletion(VolumeId),
    SnapshotDeletion(SnapshotId),
}

/// Remembers mutating calls for [`SETTLE`], and proofs for longer.
#[derive(Debug)]
pub(crate) struct RecentWrites {
    since: Instant,
    writes: Expiring<Write, Instant>,
    /// The instant from which the absence of the object is a proof.
    known: Expiring<Object, Instant>,
    /// When the describe was sent that proved the absence of a name.
    absent: Expiring<Write, Instant>,
    /// [`SETTLE`] after the first refusal of a modification.
    refused: Expiring<VolumeId, Instant>,
    terms: LeaseTerms,
}

impl RecentWrites {
    /// Starts with the process. The last calls of an earlier process are unknown.
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            writes: Expiring::default(),
            known: Expiring::default(),
            absent: Expiring::default(),
            refused: Expiring::default(),
            terms: LeaseTerms::default(),
        }
    }

    /// Records a call that EC2 accepted, or may have accepted.
    pub(crate) fn note(&self, write: Write) {
        self.absent.remove(&write);
        self.writes.insert(write, Instant::now() + SETTLE, SETTLE);
    }

    /// Returns true if such a call was sent within the last [`SETTLE`].
    pub(crate) fn is_recent(&self, write: &Write) -> bool {
        self.writes.get(write).is_some()
    }

    /// Returns the instant from which an absence is a proof, as far as this process knows.
    pub(crate) fn settled_at(&self, write: &Write) -> Instant {
        self.writes.get(write).unwrap_or(self.since)
    }

    /// Returns true while calls of an earlier process may still take effect.
    pub(crate) fn in_startup_grace(&self) -> bool {
        Instant::now() < self.startup_grace_ends()
    }

    /// Returns the instant after which no call of an earlier process can take effect.
    pub(crate) fn startup_grace_ends(&self) -> Instant {
        self.since + SETTLE
    }

    /// Returns the instant from which describes show such writes of all processes that the sidecar called before.
    pub(crate) fn settled_for_all_at(&self, write: &Write, sidecar: Sidecar) -> Instant {
        self.settled_at(write).max(self.sole_from(sidecar))
    }

    /// Records the object that EC2 returned for a creation. A repeated answer has no news about the name.
    pub(crate) fn note_made(&self, name: Write, object: Object) {
        if self.known.get(&object).is_none() {
            self.note(name);
            self.heard_of(&object);
        }
    }

    /// Records that a describe has listed the object.
    pub(crate) fn note_seen(&self, object: &Object) {
        self.known.insert(object.clone(), Instant::now() + SETTLE, MEMORY);
    }

    /// Returns the instant from which the absence of the object is a proof. The object existed before a client named
    /// it, so the wait begins when this process first heard of it, and not again with each request.
    pub(crate) fn heard_of(&self, object: &Object) -> Instant {
        first(&self.known, object)
    }

    /// Returns true if a describe requested at `asked` may not show the object yet, although this process knows it.
    pub(crate) fn may_be_unseen(&self, object: &Object, asked: Instant) -> bool {
        self.known.get(object).is_some_and(|settled| asked < settled)
    }

    /// Returns the instant from which "not found" proves that the object is gone. If this process does not know the
    /// object, another process may have made it just before the lease moved.
    pub(crate) fn gone_from(&self, object: &Object, sidecar: Sidecar) -> Instant {
        self.known.get(object).unwrap_or_else(|| self.heard_of(object).min(self.sole_from(sidecar)))
    }

    /// Records the refusal of a modification. Returns until when describes may not show its reason. Repeated refusals
    /// do not extend this time.
    pub(crate) fn refusal_settles_at(&self, volume: &VolumeId) -> Instant {
        first(&self.refused, volume)
    }

    pub(crate) fn forget_refusal(&self, volume: &VolumeId) {
        self.refused.remove(volume);
    }

    /// Records a mutating request of the sidecar, with its connection.
    pub(crate) fn note_request(&self, sidecar: Sidecar, connection: Option<ConnectionId>) {
        self.terms.note_request(sidecar, connection);
    }

    /// Records that a mutating request of the sidecar begins or ends.
    pub(crate) fn note_request_from(&self, sidecar: Sidecar) {
        self.terms.note_request(sidecar, None);
    }

    /// Serves a mutating request of the sidecar. Records it at its start, and at its end if a client still waits.
    pub(crate) async fn serve<F: Future>(&self, sidecar: Sidecar, waiters: &Waiters, operation: F) -> F::Output {
        self.note_request_from(sidecar);
        let outcome = operation.await;
        if waiters.any() {
            self.note_request_from(sidecar);
        }
        outcome
    }

    /// Serves one request for each of the sidecars.
    pub(crate) async fn serve_all<F: Future>(
        &self,
        sidecars: &[Sidecar],
        waiters: &Waiters,
        operation: F,
    ) -> F::Output {
        sidecars.iter().for_each(|sidecar| self.note_request_from(*sidecar));
        let outcome = operation.await;
        if waiters.any() {
            sidecars.iter().for_each(|sidecar| self.note_request_from(*sidecar));
        }
        outcome
    }

    pub(crate) fn term_began(&self, sidecar: Sidecar) -> Instant {
        self.terms.began(sidecar)
    }

    /// Returns the instant from which describes show all that another process did for the sidecar, and none of its
    /// calls is in flight.
    pub(crate) fn sole_from(&self, sidecar: Sidecar) -> Instant {
        self.terms.sole_from(sidecar)
    }

    /// Returns the same for the sidecars that modify volumes.
    pub(crate) fn modifiers_sole_from(&self) -> Instant {
        self.terms.all_sole_from(&[Sidecar::Resizer, Sidecar::VolumeModifier])
    }

    /// Returns the instant from which an empty describe proves that no process has made an object of the name.
    pub(crate) fn absence_proven_from(&self, name: &Write, sidecar: Sidecar) -> Instant {
        self.settled_for_all_at(name, sidecar)
    }

    /// Records that a describe sent at `sent` has listed nothing of the name.
    pub(crate) fn note_absence(&self, name: &Write, sidecar: Sidecar, sent: Instant) {
        if sent >= self.absence_proven_from(name, sidecar) {
            self.absent.insert(name.clone(), sent, MEMORY);
        }
    }

    /// Returns true if this process has proven that no object of the name exists, and none can have been made since.
    pub(crate) fn is_absent(&self, name: &Write, sidecar: Sidecar) -> bool {
        self.absent.get(name).is_some_and(|sent| sent >= self.term_began(sidecar))
    }
}

/// Returns the instant [`SETTLE`] after the first request for the key, which each request keeps in the memory.
fn first<K: Clone + Eq + Hash>(times: &Expiring<K, Instant>, key: &K) -> Instant {
    let settled = times.get(key).unwrap_or_else(|| Instant::now() + SETTLE);
    times.insert(key.clone(), settled, MEMORY);
    settled
}

#[cfg(test)]
#[path = "recent_writes_tests.rs"]
mod tests;
