//! Logs to standard error, traces, metrics, and the HTTP pages of the driver.
//!
//! Does not depend on the crates that it observes: the binary adapts their observers to [`Metrics`]. A failed listener
//! is restarted and never stops the driver.

mod http;
mod logging;
mod metrics;
mod ours;
mod rate;
mod readiness;
mod traces;

pub use http::{Listen, Pages, Tls, TlsError, TlsFiles, serve};
pub use logging::{LogConfig, LoggingError, init};
pub use metrics::{
    CallEnd, DiskExceeded, DiskReport, DiskStatistics, DiskTransfers, Disks, HealthFailure, Metrics, MetricsConfig,
    NotGrownVolume, PendingDetach, UnhealthyVolume, count_panics,
};
pub use readiness::Readiness;
pub use traces::{BadAuthorities, BadTraceEndpoint, TraceExport, Traces, TracesError};
