//! The driver's logs to standard error, traces, metrics, and HTTP pages.
//!
//! This crate does not depend on the crates that it observes: the binary adapts their observers to [`Metrics`].

mod http;
mod logging;
mod metrics;
mod ours;
mod rate;
mod readiness;
mod traces;

pub use http::{Listen, Pages, Tls, TlsError, TlsFiles, serve, serve_liveness};
pub use logging::{LogConfig, LoggingError, init};
pub use metrics::{
    CallEnd, DiskExceeded, DiskReport, DiskStatistics, DiskTransfers, Disks, HealthFailure, Metrics, MetricsConfig,
    NotGrownVolume, PendingDetach, UnhealthyVolume, count_panics,
};
pub use readiness::Readiness;
pub use traces::{BadAuthorities, BadTraceEndpoint, TraceExport, Traces, TracesError};
