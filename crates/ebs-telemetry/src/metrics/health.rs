//! Whether EC2 answers and accepts the driver: the driver's own question, asked now and then (`decisions.md` D-18).

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;

/// 1 or 0, by the last health check; 0 until the first one.
const SUCCESS: (&str, &str) = (
    "aws_ebs_csi_ec2_health_check_success",
    "1: EC2 answered the last health check and accepted the credentials; 0: it did not, or was not asked yet",
);

/// Without the `_total` that the text format appends.
const FAILURES: (&str, &str) = ("aws_ebs_csi_ec2_health_check_failures", "Health checks of EC2 that failed, by reason");

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReasonLabel {
    reason: &'static str,
}

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
    success: Gauge,
    failures: Family<ReasonLabel, Counter>,
}

impl HealthChecks {
    pub(super) fn register(registry: &mut Registry) -> Self {
        let (success, failures) = (Gauge::default(), Family::<ReasonLabel, Counter>::default());
        registry.register(SUCCESS.0, SUCCESS.1, success.clone());
        registry.register(FAILURES.0, FAILURES.1, failures.clone());
        Self { success, failures }
    }

    pub(super) fn note(&self, outcome: Result<(), HealthFailure>) {
        self.success.set(i64::from(outcome.is_ok()));
        if let Err(failure) = outcome {
            self.failures.get_or_create(&ReasonLabel { reason: failure.reason() }).inc();
        }
    }
}
