//! Whether the driver can work now, and the reason if it cannot.

use std::sync::{Arc, Mutex, PoisonError};

/// The readiness that parts of the driver set and `/readyz` shows. All clones share it.
///
/// It never restarts anything. Any client in the cluster can read `/readyz`, so the reason is a fixed text of this
/// program and cannot contain an answer of AWS with account ids, ARNs and request ids.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Mutex<Result<(), &'static str>>>);

impl Readiness {
    /// Creates it as not ready, for the given reason.
    pub fn starting(reason: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Err(reason))))
    }

    /// Sets it to ready.
    pub fn set_ready(&self) {
        self.set(Ok(()));
    }

    /// Sets it to not ready, for the given reason.
    pub fn set_not_ready(&self, reason: &'static str) {
        self.set(Err(reason));
    }

    /// Returns the readiness. `Err` has the reason.
    pub fn get(&self) -> Result<(), &'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, level: Result<(), &'static str>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }
}
