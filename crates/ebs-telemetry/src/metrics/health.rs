//! Whether EC2 answers and accepts the driver: the driver's own question, asked now and then.

use super::exposition::Family;
use super::store::Numbers;
use super::table;

/// Why a health check failed; its names are those of gRPC's codes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HealthFailure {
    /// EC2 cannot be reached, or throttles.
    Unavailable,
    /// It gave no answer in time.
    DeadlineExceeded,
    /// It does not accept the credentials.
    Unauthenticated,
    /// The credentials do not allow it.
    PermissionDenied,
    /// It answered something else.
    Internal,
}

impl HealthFailure {
    const fn reason(self) -> &'static str {
        match self {
            Self::Unavailable => "Unavailable",
            Self::DeadlineExceeded => "DeadlineExceeded",
            Self::Unauthenticated => "Unauthenticated",
            Self::PermissionDenied => "PermissionDenied",
            Self::Internal => "Internal",
        }
    }
}

/// The series of health checks.
#[derive(Debug)]
pub(super) struct HealthChecks {
    /// 1 or 0, by the last health check; 0 until the first one.
    success: Numbers,
    failures: Numbers,
}

impl HealthChecks {
    pub(super) fn new() -> Self {
        let success = Numbers::new(&table::HEALTH_SUCCESS);
        success.set(&[], 0.0);
        Self { success, failures: Numbers::new(&table::HEALTH_FAILURES) }
    }

    pub(super) fn note(&self, outcome: Result<(), HealthFailure>) {
        match outcome {
            Ok(()) => self.success.set(&[], 1.0),
            Err(failure) => {
                self.success.set(&[], 0.0);
                self.failures.add(&[failure.reason()], 1.0);
            }
        }
    }

    pub(super) fn families(&self) -> [Family; 2] {
        [self.success.family(), self.failures.family()]
    }
}
