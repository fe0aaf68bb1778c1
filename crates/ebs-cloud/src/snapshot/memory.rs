//! What snapshot operations remember between attempts.

use std::time::Duration;

use ebs_ec2::{SnapshotId, ZoneName};
use tokio::time::Instant;

use crate::timeouts::SETTLE;
use crate::traffic::Expiring;
use crate::{CloudError, Lock, SnapshotFeatures, SnapshotSpec};

/// How long to remember a snapshot. After that, the driver assumes that a client knows it.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// How long to keep an error for a client that left before it got the error.
const UNDELIVERED_LIFETIME: Duration = Duration::from_secs(600);

type UndeliveredError = (SnapshotSpec, SnapshotFeatures, CloudError);

#[derive(Debug, Clone, Copy)]
struct TakenSnapshot {
    at: Instant,
    is_reported: bool,
}

#[derive(Debug, Default)]
pub(crate) struct SnapshotMemory {
    taken: Expiring<SnapshotId, TakenSnapshot>,
    /// When this process sent a call with an unclear outcome for a name that was proven unused.
    unclear: Expiring<String, Instant>,
    fast_restores: Expiring<SnapshotId, Vec<ZoneName>>,
    locked: Expiring<SnapshotId, Lock>,
    undelivered: Expiring<String, UndeliveredError>,
}

impl SnapshotMemory {
    pub(crate) fn record_taken(&self, id: &SnapshotId) {
        self.taken.insert(id.clone(), TakenSnapshot { at: Instant::now(), is_reported: false }, LIFETIME);
    }

    pub(crate) fn record_unclear(&self, name: &str) {
        self.unclear.insert(name.to_owned(), Instant::now(), LIFETIME);
    }

    pub(crate) fn record_found(&self, name: &str, id: &SnapshotId) {
        let name = name.to_owned();
        if let Some(at) = self.unclear.get(&name) {
            self.unclear.remove(&name);
            self.taken.insert(id.clone(), TakenSnapshot { at, is_reported: false }, LIFETIME);
        }
    }

    /// Records that a client may know the snapshot. Its entry is needed only in the first [`SETTLE`] of a lease term.
    pub(crate) fn record_reported(&self, id: &SnapshotId) {
        if let Some(taken) = self.taken.get(id) {
            self.taken.insert(id.clone(), TakenSnapshot { is_reported: true, ..taken }, SETTLE);
        }
    }

    /// Returns true if this process took the snapshot within the sidecar's lease term and no client can know of it.
    pub(crate) fn is_unreported(&self, id: &SnapshotId, term_began: Instant) -> bool {
        self.taken.get(id).is_some_and(|taken| !taken.is_reported && taken.at >= term_began)
    }

    /// Returns true if this process took the snapshot within the lease term, so no other process can have deleted it.
    pub(crate) fn is_taken(&self, id: &SnapshotId, term_began: Instant) -> bool {
        self.taken.get(id).is_some_and(|taken| taken.at >= term_began)
    }

    pub(crate) fn record_fast_restores(&self, id: &SnapshotId, zones: &[ZoneName]) {
        self.fast_restores.insert(id.clone(), zones.to_vec(), LIFETIME);
    }

    pub(crate) fn has_fast_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> bool {
        self.fast_restores.get(id).is_some_and(|known| known == zones)
    }

    pub(crate) fn record_locked(&self, id: &SnapshotId, lock: &Lock) {
        self.locked.insert(id.clone(), lock.clone(), LIFETIME);
    }

    pub(crate) fn is_locked(&self, id: &SnapshotId, lock: &Lock) -> bool {
        self.locked.get(id).is_some_and(|known| known == *lock)
    }

    pub(crate) fn record_error(&self, spec: &SnapshotSpec, features: &SnapshotFeatures, error: CloudError) {
        let undelivered = (spec.clone(), features.clone(), error);
        self.undelivered.insert(spec.name.clone(), undelivered, UNDELIVERED_LIFETIME);
    }

    pub(crate) fn take_error(&self, spec: &SnapshotSpec, features: &SnapshotFeatures) -> Option<CloudError> {
        let (kept, kept_features, error) = self.undelivered.get(&spec.name)?;
        self.undelivered.remove(&spec.name);
        (kept == *spec && kept_features == *features).then_some(error)
    }
}
