//! Whether the driver can do its work now, and if not, why.

use std::sync::{Arc, Mutex, PoisonError};

/// A level that parts of the driver set and `/readyz` shows. Cheap to clone; all clones are one.
///
/// Not being ready never restarts anything: it is shown, nothing more. `/readyz` is open to everybody in the
/// cluster, so a reason is a text of this program: no answer of AWS, with its account ids, ARNs and request ids, can become one.
#[derive(Debug, Clone)]
pub struct Readiness(Arc<Mutex<Result<(), &'static str>>>);

impl Readiness {
    /// Not ready, for the given reason.
    pub fn starting(reason: &'static str) -> Self {
        Self(Arc::new(Mutex::new(Err(reason))))
    }

    /// From now on ready.
    pub fn set_ready(&self) {
        self.set(Ok(()));
    }

    /// From now on not ready, for the given reason.
    pub fn set_not_ready(&self, reason: &'static str) {
        self.set(Err(reason));
    }

    /// The level now: `Err` holds the reason.
    pub fn get(&self) -> Result<(), &'static str> {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set(&self, level: Result<(), &'static str>) {
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
        assert_eq!(other.get(), Err("starting"));
        readiness.set_ready();
        assert_eq!(other.get(), Ok(()));
        other.set_not_ready("EC2 does not answer");
        assert_eq!(readiness.get(), Err("EC2 does not answer"));
    }
}
