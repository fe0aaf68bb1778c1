//! Remembers recent changes that describes may not show yet.
//!
//! Decision: `docs/dev/decisions/0006-assume-stale-reads-and-a-previous-leader.md`.

use std::hash::Hash;
use std::time::Duration;

use ebs_ec2::{SnapshotId, VolumeId};
use tokio::time::Instant;

use crate::Object;
use crate::lease_terms::{LeaseTerms, Sidecar};
use crate::timeouts::SETTLE;
use crate::traffic::Expiring;

/// How long to remember that an object is known or that a name is unused.
const MEMORY: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Write {
    VolumeName(String),
    SnapshotName(String),
    Modification(VolumeId),
    Deletion(VolumeId),
    SnapshotDeletion(SnapshotId),
}

#[derive(Debug)]
pub(crate) struct RecentWrites {
    since: Instant,
    writes: Expiring<Write, Instant>,
    /// The instant from which an empty describe proves that the object does not exist.
    known: Expiring<Object, Instant>,
    /// When this process sent the describe that proved that no object has the name.
    absent: Expiring<Write, Instant>,
    /// The instant from which describes show why EC2 refused the modification: [`SETTLE`] after the first refusal.
    modification_refused: Expiring<VolumeId, Instant>,
    pub(crate) leases: LeaseTerms,
}

impl RecentWrites {
    pub(crate) fn new() -> Self {
        Self {
            since: Instant::now(),
            writes: Expiring::default(),
            known: Expiring::default(),
            absent: Expiring::default(),
            modification_refused: Expiring::default(),
            leases: LeaseTerms::default(),
        }
    }

    pub(crate) fn record_write(&self, write: Write) {
        self.absent.remove(&write);
        self.writes.insert(write, Instant::now() + SETTLE, SETTLE);
    }

    /// Returns true if this process recorded the write within the last [`SETTLE`].
    pub(crate) fn is_recent(&self, write: &Write) -> bool {
        self.writes.get(write).is_some()
    }

    /// Returns the instant from which a describe shows the write. Ignores the calls of other processes.
    pub(crate) fn settled_at(&self, write: &Write) -> Instant {
        self.writes.get(write).unwrap_or(self.since)
    }

    pub(crate) fn in_startup_grace(&self) -> bool {
        Instant::now() < self.startup_grace_ends()
    }

    /// Returns the instant after which no call of an earlier process can take effect.
    pub(crate) fn startup_grace_ends(&self) -> Instant {
        self.since + SETTLE
    }

    /// Records the object that EC2 returned for a creation. If it is already known, EC2 repeated an earlier answer.
    pub(crate) fn record_made(&self, name: Write, object: Object) {
        if self.known.get(&object).is_none() {
            self.record_write(name);
            self.record_named(&object);
        }
    }

    pub(crate) fn record_seen(&self, object: &Object) {
        self.known.insert(object.clone(), Instant::now() + SETTLE, MEMORY);
    }

    /// Returns the instant from which an empty describe proves that the object does not exist. A client can name only
    /// an object that EC2 has created, so only the first request for an object starts the wait.
    pub(crate) fn record_named(&self, object: &Object) -> Instant {
        first(&self.known, object)
    }

    /// Returns true if this process knows the object, but a describe requested at `asked` may be too stale to show it.
    pub(crate) fn may_be_unseen(&self, object: &Object, asked: Instant) -> bool {
        self.known.get(object).is_some_and(|settled| asked < settled)
    }

    /// Returns the instant from which "not found" proves that the object is gone. Another process may have made an
    /// unknown object just before the lease moved.
    pub(crate) fn gone_from(&self, object: &Object, sidecar: Sidecar) -> Instant {
        self.known.get(object).unwrap_or_else(|| self.record_named(object).min(self.leases.sole_from(sidecar)))
    }

    /// Records that EC2 refused a modification. Returns the instant from which describe calls show the cause of the
    /// first refusal.
    pub(crate) fn record_refusal(&self, volume: &VolumeId) -> Instant {
        first(&self.modification_refused, volume)
    }

    pub(crate) fn forget_refusal(&self, volume: &VolumeId) {
        self.modification_refused.remove(volume);
    }

    /// Returns the instant from which an empty describe proves that no process has made an object with the name.
    pub(crate) fn absence_proven_from(&self, name: &Write, sidecar: Sidecar) -> Instant {
        self.settled_at(name).max(self.leases.sole_from(sidecar))
    }

    /// Records that a describe sent at `sent` listed no object with the name.
    pub(crate) fn record_absence(&self, name: &Write, sidecar: Sidecar, sent: Instant) {
        if sent >= self.absence_proven_from(name, sidecar) {
            self.absent.insert(name.clone(), sent, MEMORY);
        }
    }

    /// Returns true if it is proven that no object has the name, and no other process can have made one since.
    pub(crate) fn is_absent(&self, name: &Write, sidecar: Sidecar) -> bool {
        self.absent.get(name).is_some_and(|sent| sent >= self.leases.began(sidecar))
    }
}

/// Returns the instant that is [`SETTLE`] after the first request for the key. Each request renews the entry's
/// lifetime.
fn first<K: Clone + Eq + Hash>(times: &Expiring<K, Instant>, key: &K) -> Instant {
    let settled = times.get(key).unwrap_or_else(|| Instant::now() + SETTLE);
    times.insert(key.clone(), settled, MEMORY);
    settled
}

#[cfg(test)]
#[path = "recent_writes_tests.rs"]
mod tests;
