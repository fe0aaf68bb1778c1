//! What this process knows of things that a look may not show yet, or may still show.
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

/// For how long is remembered since when an object is known, and that a name has none. Whoever comes later than that
/// waits, or looks, once more.
const MEMORY: Duration = Duration::from_secs(3600);

/// What a mutating call may have brought about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    VolumeName(String),
    SnapshotName(String),
    Modification(VolumeId),
    Deletion(VolumeId),
    SnapshotDeletion(SnapshotId),
}

/// Remembers mutating calls for [`SETTLE`], and longer what has been proven.
#[derive(Debug)]
pub(crate) struct RecentWrites {
    since: Instant,
    writes: Expiring<Write, Instant>,
    /// From when on an absence of the object is a proof.
    known: Expiring<Object, Instant>,
    /// When the describe was sent that proved the absence of a name.
    absent: Expiring<Write, Instant>,
    /// [`SETTLE`] after the first refusal of a modification.
    refused: Expiring<VolumeId, Instant>,
    terms: LeaseTerms,
}

impl RecentWrites {
    /// The process starts: what one before it did in its last seconds is unknown.
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

    /// A call was accepted, or may have been.
    pub(crate) fn note(&self, write: Write) {
        self.absent.remove(&write);
        self.writes.insert(write, Instant::now() + SETTLE, SETTLE);
    }

    /// True when such a call was made within the last [`SETTLE`].
    pub(crate) fn is_recent(&self, write: &Write) -> bool {
        self.writes.get(write).is_some()
    }

    /// From when on an absence is a proof, as far as this process knows.
    pub(crate) fn settled_at(&self, write: &Write) -> Instant {
        self.writes.get(write).unwrap_or(self.since)
    }

    /// True while what a process before this one had under way may still take effect.
    pub(crate) fn in_startup_grace(&self) -> bool {
        Instant::now() < self.startup_grace_ends()
    }

    /// From when on all that has taken effect or never will.
    pub(crate) fn startup_grace_ends(&self) -> Instant {
        self.since + SETTLE
    }

    /// From when on describes show what has been done of this by any process that was asked for it before.
    pub(crate) fn settled_for_all_at(&self, write: &Write, sidecar: Sidecar) -> Instant {
        self.settled_at(write).max(self.sole_from(sidecar))
    }

    /// EC2 has answered a creation with that object. The answer to a repeated request says nothing new of the name.
    pub(crate) fn note_made(&self, name: Write, object: Object) {
        if self.known.get(&object).is_none() {
            self.note(name);
            self.heard_of(&object);
        }
    }

    /// The object is seen to exist.
    pub(crate) fn note_seen(&self, object: &Object) {
        self.known.insert(object.clone(), Instant::now() + SETTLE, MEMORY);
    }

    /// From when on an absence of the object is a proof. It existed before somebody named it, so the wait begins when
    /// this process first heard of it, not anew with each request.
    pub(crate) fn heard_of(&self, object: &Object) -> Instant {
        first(&self.known, object)
    }

    /// True when a look that was asked for then may not show the object yet, although this process has heard of it.
    pub(crate) fn may_be_unseen(&self, object: &Object, asked: Instant) -> bool {
        self.known.get(object).is_some_and(|settled| asked < settled)
    }

    /// From when on "not found" proves that the object is gone. Where this process has not heard of it, another one may
    /// have made it just before this one was asked.
    pub(crate) fn gone_from(&self, object: &Object, sidecar: Sidecar) -> Instant {
        self.known.get(object).unwrap_or_else(|| self.heard_of(object).min(self.sole_from(sidecar)))
    }

    /// A modification of the volume was refused; until when what stood in its way may not be shown. Repeated refusals
    /// do not begin it anew.
    pub(crate) fn refusal_settles_at(&self, volume: &VolumeId) -> Instant {
        first(&self.refused, volume)
    }

    pub(crate) fn forget_refusal(&self, volume: &VolumeId) {
        self.refused.remove(volume);
    }

    /// A mutating request of the sidecar has come over that connection.
    pub(crate) fn note_request(&self, sidecar: Sidecar, connection: Option<ConnectionId>) {
        self.terms.note_request(sidecar, connection);
    }

    /// A mutating request of the sidecar is served, or was until now.
    pub(crate) fn note_request_from(&self, sidecar: Sidecar) {
        self.terms.note_request(sidecar, None);
    }

    /// Serves a mutating request of the sidecar: it is the one that asks at the beginning, and at the end if somebody
    /// still waits.
    pub(crate) async fn serve<F: Future>(&self, sidecar: Sidecar, waiters: &Waiters, operation: F) -> F::Output {
        self.note_request_from(sidecar);
        let outcome = operation.await;
        if waiters.any() {
            self.note_request_from(sidecar);
        }
        outcome
    }

    /// The same for one request of each of these sidecars.
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

    /// From when on everything shows that another process has done for the sidecar, and nothing of it is under way.
    pub(crate) fn sole_from(&self, sidecar: Sidecar) -> Instant {
        self.terms.sole_from(sidecar)
    }

    /// From when on everything shows that another process has done for a sidecar that modifies volumes, and nothing of it is
    /// under way.
    pub(crate) fn modifiers_sole_from(&self) -> Instant {
        self.terms.all_sole_from(&[Sidecar::Resizer, Sidecar::VolumeModifier])
    }

    /// From when on a describe that shows nothing of the name proves that there is nothing, whoever was asked for it
    /// before.
    pub(crate) fn absence_proven_from(&self, name: &Write, sidecar: Sidecar) -> Instant {
        self.settled_for_all_at(name, sidecar)
    }

    /// A describe sent then has shown nothing of the name.
    pub(crate) fn note_absence(&self, name: &Write, sidecar: Sidecar, sent: Instant) {
        if sent >= self.absence_proven_from(name, sidecar) {
            self.absent.insert(name.clone(), sent, MEMORY);
        }
    }

    /// True when this process has proven that there is nothing of the name, and nothing can have been made since.
    pub(crate) fn is_absent(&self, name: &Write, sidecar: Sidecar) -> bool {
        self.absent.get(name).is_some_and(|sent| sent >= self.term_began(sidecar))
    }
}

/// [`SETTLE`] after the first time; kept for as long as somebody asks.
fn first<K: Clone + Eq + Hash>(times: &Expiring<K, Instant>, key: &K) -> Instant {
    let settled = times.get(key).unwrap_or_else(|| Instant::now() + SETTLE);
    times.insert(key.clone(), settled, MEMORY);
    settled
}

#[cfg(test)]
#[path = "recent_writes_tests.rs"]
mod tests;
