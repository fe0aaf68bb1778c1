//! Counters of calls. Their names and format are those of Prometheus' Go library for gRPC.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use component_base::metrics::{self, Desc, Family, Sample, Series, page};

use crate::figures::Figures;

const BOUNDS: &[f64] = &[0.001, 0.01, 0.1, 0.3, 0.6, 1.0, 3.0, 6.0, 9.0, 20.0, 30.0, 60.0, 90.0, 120.0];
const LABELS: &[&str] = &["grpc_method", "grpc_service", "grpc_type"];

static STARTED: Desc =
    Desc::counter("grpc_server_started_total", "Total number of RPCs started on the server.").by(LABELS);
static RECEIVED: Desc =
    Desc::counter("grpc_server_msg_received_total", "Total number of RPC stream messages received on the server.")
        .by(LABELS);
static SENT: Desc =
    Desc::counter("grpc_server_msg_sent_total", "Total number of gRPC stream messages sent by the server.").by(LABELS);
static HANDLED: Desc = Desc::counter(
    "grpc_server_handled_total",
    "Total number of RPCs completed on the server, regardless of success or failure.",
)
.by(&["grpc_code", "grpc_method", "grpc_service", "grpc_type"]);
static SECONDS: Desc = Desc::histogram(
    "grpc_server_handling_seconds",
    BOUNDS,
    "Histogram of response latency (seconds) of gRPC that had been application-level handled by the server.",
)
.by(LABELS);
static CPU: Desc = Desc::counter("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.");
static OPEN: Desc = Desc::gauge("process_open_fds", "Number of open file descriptors or handles.");
static RESIDENT: Desc = Desc::gauge("process_resident_memory_bytes", "Resident memory size in bytes.");
static START: Desc =
    Desc::gauge("process_start_time_seconds", "Start time of the process since unix epoch in seconds.");

/// The calls that this process has received. A series appears with the first call of its method.
#[derive(Debug)]
pub(crate) struct Metrics {
    started: Series,
    received: Series,
    sent: Series,
    handled: Series,
    seconds: Series,
    figures: fn() -> Figures,
}

impl Metrics {
    /// Creates the counters at zero. `figures` queries the resource usage of this process.
    pub(crate) fn new(figures: fn() -> Figures) -> Self {
        Self {
            started: Series::new(&STARTED),
            received: Series::new(&RECEIVED),
            sent: Series::new(&SENT),
            handled: Series::new(&HANDLED),
            seconds: Series::new(&SECONDS),
            figures,
        }
    }

    /// Counts a new call, for example with the `service` `v1.Disk` and the `method` `ListDiskIDs`.
    pub(crate) fn started(&self, service: &str, method: &'static str) {
        let labels = [method, service, "unary"];
        self.started.add(&labels, 1.0);
        self.received.add(&labels, 0.0);
        self.sent.add(&labels, 0.0);
        self.seconds.expect(&labels);
    }

    pub(crate) fn received(&self, service: &str, method: &'static str) {
        self.received.add(&[method, service, "unary"], 1.0);
    }

    /// Counts the end of a call. A successful call also counts as a sent message.
    pub(crate) fn handled(&self, service: &str, method: &'static str, code: &'static str, took: Duration) {
        let labels = [method, service, "unary"];
        self.handled.add(&[code, method, service, "unary"], 1.0);
        self.sent.add(&labels, if code == "OK" { 1.0 } else { 0.0 });
        self.seconds.observe(&labels, took.as_secs_f64());
    }

    pub(crate) fn router(self: Arc<Self>) -> Router {
        let page = async move || ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], self.page());
        Router::new().route("/metrics", get(page))
    }

    fn page(&self) -> String {
        let Figures { cpu_seconds, open, resident, started } = (self.figures)();
        let process = [(&CPU, cpu_seconds), (&OPEN, open), (&RESIDENT, resident), (&START, started)];
        let calls = [&self.started, &self.received, &self.sent, &self.handled, &self.seconds].map(Series::family);
        let mut families = Vec::from(calls);
        families.extend(process.map(|(desc, value)| {
            let samples = value.map(|value| Sample::number(&[], value)).into_iter().collect();
            Family { desc, samples }
        }));
        page(families)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_service_method_and_code() {
        let metrics = Metrics::new(Figures::default);
        assert!(!metrics.page().contains("grpc_server"), "series appear with the first call");
        for (code, took) in [("OK", 2), ("OK", 700), ("Unknown", 100)] {
            metrics.started("v1.Disk", "ListDiskIDs");
            metrics.received("v1.Disk", "ListDiskIDs");
            metrics.handled("v1.Disk", "ListDiskIDs", code, Duration::from_millis(took));
        }
        let page = metrics.page();
        let labels = "grpc_method=\"ListDiskIDs\",grpc_service=\"v1.Disk\",grpc_type=\"unary\"";
        for line in [
            format!("grpc_server_started_total{{{labels}}} 3"),
            format!("grpc_server_msg_received_total{{{labels}}} 3"),
            format!("grpc_server_msg_sent_total{{{labels}}} 2"),
            format!("grpc_server_handled_total{{grpc_code=\"OK\",{labels}}} 2"),
            format!("grpc_server_handled_total{{grpc_code=\"Unknown\",{labels}}} 1"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"0.001\"}} 0"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"0.1\"}} 2"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"1\"}} 3"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"120\"}} 3"),
            format!("grpc_server_handling_seconds_bucket{{{labels},le=\"+Inf\"}} 3"),
            format!("grpc_server_handling_seconds_count{{{labels}}} 3"),
        ] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
    }

    #[test]
    fn page_includes_metrics_of_the_process() {
        let figures = || Figures { resident: Some(12_582_912.0), started: Some(1.5), ..Figures::default() };
        let page = Metrics::new(figures).page();
        for line in ["process_start_time_seconds 1.5", "process_resident_memory_bytes 1.2582912e+07"] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
        assert!(!page.contains("process_open_fds"), "what the system does not tell is left out");
    }
}
