//! The periodic health check of EC2: whether EC2 responds and accepts the driver's credentials.

use component_base::metrics::{Family, Series};

use super::table;

/// Why a health check failed. The names are gRPC codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HealthFailure {
    /// EC2 is unreachable, or throttles the calls.
    Unavailable,
    /// EC2 did not answer in time.
    DeadlineExceeded,
    /// EC2 does not accept the credentials.
    Unauthenticated,
    /// The credentials do not permit the call.
    PermissionDenied,
    /// EC2 returned another error.
    Internal,
}

#[derive(Debug)]
pub(super) struct HealthChecks {
    /// 1 if the last health check succeeded. 0 if it failed, and before the first check.
    success: Series,
    failures: Series,
}

impl HealthChecks {
    pub(super) fn new() -> Self {
        let success = Series::new(&table::HEALTH_SUCCESS);
        success.set(&[], 0.0);
        Self { success, failures: Series::new(&table::HEALTH_FAILURES) }
    }

    pub(super) fn note(&self, outcome: Result<(), HealthFailure>) {
        self.success.set(&[], if outcome.is_ok() { 1.0 } else { 0.0 });
        if let Err(failure) = outcome {
            self.failures.add(&[&format!("{failure:?}")], 1.0);
        }
    }

    pub(super) fn families(&self) -> [Family; 2] {
        [self.success.family(), self.failures.family()]
    }
}
