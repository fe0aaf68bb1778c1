//! What this process has done about snapshots, from attempt to attempt.

use std::time::Duration;

use ebs_types::{SnapshotId, ZoneName};
use tokio::time::Instant;

use crate::expiring::Expiring;
use crate::{CloudError, Lock, SnapshotFeatures, SnapshotSpec};

/// For how long it is remembered. After that a snapshot counts as one that somebody may know, and gets its features once
/// more.
const LIFETIME: Duration = Duration::from_secs(12 * 3600);
/// For how long an error is kept for whoever asked and left.
const UNHEARD_LIFETIME: Duration = Duration::from_secs(600);

/// What was asked for and what became of it.
type Unheard = (SnapshotSpec, SnapshotFeatures, CloudError);

/// Snapshots taken, what they have, and who knows of them.
#[derive(Debug, Default)]
pub(crate) struct SnapshotMemory {
    /// Taken here, and no success was answered since: when.
    untold: Expiring<SnapshotId, Instant>,
    /// Names of proven absence for which a call of unclear outcome was made: when.
    unclear: Expiring<String, Instant>,
    fast: Expiring<SnapshotId, Vec<ZoneName>>,
    locked: Expiring<SnapshotId, Lock>,
    unheard: Expiring<String, Unheard>,
}

impl SnapshotMemory {
    /// EC2 has taken it for this process.
    pub(crate) fn note_taken(&self, id: &SnapshotId) {
        self.untold.insert(id.clone(), Instant::now(), LIFETIME);
    }

    /// EC2 may have taken one of a name of which there was none.
    pub(crate) fn note_unclear(&self, name: &str) {
        self.unclear.insert(name.to_owned(), Instant::now(), LIFETIME);
    }

    /// A look has found it under that name.
    pub(crate) fn note_found(&self, name: &str, id: &SnapshotId) {
        let name = name.to_owned();
        if let Some(at) = self.unclear.get(&name) {
            self.unclear.remove(&name);
            self.untold.insert(id.clone(), at, LIFETIME);
        }
    }

    /// From now on somebody may know it.
    pub(crate) fn note_told(&self, id: &SnapshotId) {
        self.untold.remove(id);
    }

    /// True when this process has taken it and can tell that nobody knows it: since then it alone was asked.
    pub(crate) fn is_untold(&self, id: &SnapshotId, term_began: Instant) -> bool {
        self.untold.get(id).is_some_and(|taken| taken >= term_began)
    }

    /// Fast restores were enabled.
    pub(crate) fn note_fast(&self, id: &SnapshotId, zones: &[ZoneName]) {
        self.fast.insert(id.clone(), zones.to_vec(), LIFETIME);
    }

    /// True when this process has enabled them in those zones.
    pub(crate) fn is_fast(&self, id: &SnapshotId, zones: &[ZoneName]) -> bool {
        self.fast.get(id).is_some_and(|known| known == zones)
    }

    /// It was locked.
    pub(crate) fn note_locked(&self, id: &SnapshotId, lock: &Lock) {
        self.locked.insert(id.clone(), lock.clone(), LIFETIME);
    }

    /// True when this process has locked it so.
    pub(crate) fn is_locked(&self, id: &SnapshotId, lock: &Lock) -> bool {
        self.locked.get(id).is_some_and(|known| known == *lock)
    }

    /// Keeps an error that nobody waited for.
    pub(crate) fn keep(&self, spec: &SnapshotSpec, features: &SnapshotFeatures, error: CloudError) {
        let unheard = (spec.clone(), features.clone(), error);
        self.unheard.insert(spec.name.clone(), unheard, UNHEARD_LIFETIME);
    }

    /// The error kept for an equal request, once.
    pub(crate) fn take(&self, spec: &SnapshotSpec, features: &SnapshotFeatures) -> Option<CloudError> {
        let (kept, kept_features, error) = self.unheard.get(&spec.name)?;
        self.unheard.remove(&spec.name);
        (kept == *spec && kept_features == *features).then_some(error)
    }
}
