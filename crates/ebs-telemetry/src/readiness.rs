//! Whether the driver can work now, and why not.

use std::sync::{Arc, Mutex, PoisonError};

/// The readiness that parts of the driver set and that `/readyz` shows. All clones share it.
///
/// It never causes a restart. Any client in the cluster can read the reason, so it is a fixed text of this program and
/// never a message from AWS, which may contain account ids, ARNs and request ids.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Mutex<Result<(), &'static str>>>);

impl Readiness {
    /// Creates a readiness that is not ready yet, for this reason.
    pub fn starting(reason: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Err(reason))))
    }

    /// Reports that the driver is ready.
    pub fn set_ready(&self) {
        self.set(Ok(()));
    }

    /// Reports that the driver is not ready, for this reason.
    pub fn set_not_ready(&self, reason: &'static str) {
        self.set(Err(reason));
    }

    /// Returns `Ok` if the driver is ready, and otherwise the reason.
    pub fn get(&self) -> Result<(), &'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, level: Result<(), &'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }
}
