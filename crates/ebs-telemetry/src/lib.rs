//! What the driver says of itself: log lines on standard error, counters, and the HTTP pages that show them.
//!
//! Depends on no other crate of ours: whoever has something to count calls [`Metrics`], and the binary adapts the
//! observers of the other crates to it. Nothing here can stop the driver: a listener that fails is tried again.

mod http;
mod logging;
mod metrics;
mod rate;
mod readiness;

pub use http::{BadHttpEndpoint, HttpEndpoint, Listen, Pages, Tls, TlsError, TlsFiles, serve};
pub use logging::{LogConfig, LogFormat, LoggingError, init, log_panics};
pub use metrics::{
    CallEnd, DiskExceeded, DiskReport, DiskStatistics, DiskTransfers, Disks, HealthFailure, Metrics, MetricsConfig,
    PendingDetach, PendingDetaches, RunningOperation, RunningOperations, UnhealthyVolume, UnhealthyVolumes,
    count_panics,
};
pub use readiness::Readiness;
