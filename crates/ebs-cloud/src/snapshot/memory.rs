//! What this process has done about snapshots, from attempt to attempt.

use std::time::Duration;

use ebs_calls::Expiring;
use ebs_types::{SnapshotId, ZoneName};
use tokio::time::Instant;

use crate::{CloudError, Lock, SnapshotFeatures, SnapshotSpec};

/// For how long it is remembered. After that a snapshot counts as one that somebody may know, and gets its features once
/// more.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// For how long an error is kept for whoever asked and left.
const UNDELIVERED_LIFETIME: Duration = Duration::from_secs(600);

/// What was asked for and what became of it.
type UndeliveredError = (SnapshotSpec, SnapshotFeatures, CloudError);

/// Snapshots taken, what they have, and who knows of them.
#[derive(Debug, Default)]
pub(crate) struct SnapshotMemory {
    /// Taken here, and no success was answered since: when.
    unreported: Expiring<SnapshotId, Instant>,
    /// Names of proven absence for which a call of unclear outcome was made: when.
    unclear: Expiring<String, Instant>,
    fast_restores: Expiring<SnapshotId, Vec<ZoneName>>,
    locked: Expiring<SnapshotId, Lock>,
    undelivered: Expiring<String, UndeliveredError>,
}

impl SnapshotMemory {
    /// EC2 has taken it for this process.
    pub(crate) fn note_taken(&self, id: &SnapshotId) {
        self.unreported.insert(id.clone(), Instant::now(), LIFETIME);
    }

    /// EC2 may have taken one of a name of which there was none.
    pub(crate) fn note_unclear(&self, name: &str) {
        self.unclear.insert(name.to_owned(), Instant::now(), LIFETIME);
    }

    /// A describe has found it under that name.
    pub(crate) fn note_found(&self, name: &str, id: &SnapshotId) {
        let name = name.to_owned();
        if let Some(at) = self.unclear.get(&name) {
            self.unclear.remove(&name);
            self.unreported.insert(id.clone(), at, LIFETIME);
        }
    }

    /// From now on somebody may know it.
    pub(crate) fn note_reported(&self, id: &SnapshotId) {
        self.unreported.remove(id);
    }

    /// True when this process has taken it and can tell that nobody knows it: since then it alone was asked.
    pub(crate) fn is_unreported(&self, id: &SnapshotId, term_began: Instant) -> bool {
        self.unreported.get(id).is_some_and(|taken| taken >= term_began)
    }

    pub(crate) fn note_fast_restores(&self, id: &SnapshotId, zones: &[ZoneName]) {
        self.fast_restores.insert(id.clone(), zones.to_vec(), LIFETIME);
    }

    /// True when this process has enabled them in those zones.
    pub(crate) fn has_fast_restores(&self, id: &SnapshotId, zones: &[ZoneName]) -> bool {
        self.fast_restores.get(id).is_some_and(|known| known == zones)
    }

    pub(crate) fn note_locked(&self, id: &SnapshotId, lock: &Lock) {
        self.locked.insert(id.clone(), lock.clone(), LIFETIME);
    }

    /// True when this process has locked it so, or seen it locked.
    pub(crate) fn is_locked(&self, id: &SnapshotId, lock: &Lock) -> bool {
        self.locked.get(id).is_some_and(|known| known == *lock)
    }

    /// Keeps an error that nobody waited for.
    pub(crate) fn keep_error(&self, spec: &SnapshotSpec, features: &SnapshotFeatures, error: CloudError) {
        let undelivered = (spec.clone(), features.clone(), error);
        self.undelivered.insert(spec.name.clone(), undelivered, UNDELIVERED_LIFETIME);
    }

    /// The error kept for an equal request, once.
    pub(crate) fn take_error(&self, spec: &SnapshotSpec, features: &SnapshotFeatures) -> Option<CloudError> {
        let (kept, kept_features, error) = self.undelivered.get(&spec.name)?;
        self.undelivered.remove(&spec.name);
        (kept == *spec && kept_features == *features).then_some(error)
    }
}
