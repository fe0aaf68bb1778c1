//! Whether the driver can do its work now, and if not, why.

use std::sync::{Arc, Mutex, PoisonError};

/// A level that parts of the driver set and `/readyz` shows. Cheap to clone; all clones are one.
///
/// Not being ready never restarts anything (`decisions.md` D-18): it is shown, nothing more.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Mutex<Result<(), String>>>);

impl Readiness {
    /// Not ready, for the given reason.
    pub fn starting(reason: impl Into<String>) -> Self {
        Self(Arc::new(Mutex::new(Err(reason.into()))))
    }

    /// From now on ready.
    pub fn set_ready(&self) {
        self.set(Ok(()));
    }

    /// From now on not ready, for the given reason; the reason is shown to whoever asks, so no secrets.
    pub fn set_not_ready(&self, reason: impl Into<String>) {
        self.set(Err(reason.into()));
    }

    /// The level now: `Err` holds the reason.
    pub fn get(&self) -> Result<(), String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn set(&self, level: Result<(), String>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = level;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readiness_is_one_level_for_all_clones_and_can_go_either_way() {
        let readiness = Readiness::starting("starting");
        let other = readiness.clone();
        assert_eq!(other.get(), Err("starting".to_owned()));
        readiness.set_ready();
        assert_eq!(other.get(), Ok(()));
        other.set_not_ready("EC2 does not answer");
        assert_eq!(readiness.get(), Err("EC2 does not answer".to_owned()));
    }
}
