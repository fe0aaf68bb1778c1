//! The page of metrics, in Prometheus' text format 0.0.4.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::{BOUNDS, Method, Metrics, Series};
use crate::figures::Figures;

pub(super) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

impl Metrics {
    /// Returns the current page, with the families sorted by name.
    pub(crate) fn page(&self) -> String {
        let all = self.now();
        let mut page = String::new();
        codes(&mut page, &all);
        durations(&mut page, &all);
        let received = "Total number of RPC stream messages received on the server.";
        counter(&mut page, &all, "grpc_server_msg_received_total", received, |series| series.received);
        let sent = "Total number of gRPC stream messages sent by the server.";
        counter(&mut page, &all, "grpc_server_msg_sent_total", sent, |series| series.sent);
        let started = "Total number of RPCs started on the server.";
        counter(&mut page, &all, "grpc_server_started_total", started, |series| series.started);
        process(&mut page, (self.figures)());
        page
    }
}

fn head(page: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labels((service, method): &Method) -> String {
    format!("grpc_method=\"{method}\",grpc_service=\"{service}\",grpc_type=\"unary\"")
}

fn counter(page: &mut String, all: &BTreeMap<Method, Series>, name: &str, help: &str, of: impl Fn(&Series) -> u64) {
    if all.is_empty() {
        return;
    }
    head(page, name, help, "counter");
    for (method, series) in all {
        let _ = writeln!(page, "{name}{{{}}} {}", labels(method), of(series));
    }
}

fn codes(page: &mut String, all: &BTreeMap<Method, Series>) {
    if all.is_empty() {
        return;
    }
    let name = "grpc_server_handled_total";
    head(page, name, "Total number of RPCs completed on the server, regardless of success or failure.", "counter");
    for (method, series) in all {
        for (code, count) in &series.handled {
            let _ = writeln!(page, "{name}{{grpc_code=\"{code}\",{}}} {count}", labels(method));
        }
    }
}

fn durations(page: &mut String, all: &BTreeMap<Method, Series>) {
    if all.is_empty() {
        return;
    }
    let name = "grpc_server_handling_seconds";
    let help = "Histogram of response latency (seconds) of gRPC that had been application-level handled by the server.";
    head(page, name, help, "histogram");
    for (method, series) in all {
        let labels = labels(method);
        for ((_, bound), below) in BOUNDS.iter().zip(series.took) {
            let _ = writeln!(page, "{name}_bucket{{{labels},le=\"{bound}\"}} {below}");
        }
        let count = series.took[BOUNDS.len() - 1];
        let _ = writeln!(page, "{name}_sum{{{labels}}} {}\n{name}_count{{{labels}}} {count}", series.seconds);
    }
}

fn process(page: &mut String, figures: Figures) {
    let Figures { cpu_seconds, open, resident, started } = figures;
    let rows = [
        ("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.", "counter", cpu_seconds),
        ("process_open_fds", "Number of open file descriptors or handles.", "gauge", open),
        ("process_resident_memory_bytes", "Resident memory size in bytes.", "gauge", resident),
        ("process_start_time_seconds", "Start time of the process since unix epoch in seconds.", "gauge", started),
    ];
    for (name, help, kind, value) in rows {
        if let Some(value) = value {
            single(page, name, help, kind, value);
        }
    }
}

/// Formats a gauge or counter without labels.
fn single(page: &mut String, name: &str, help: &str, kind: &str, value: f64) {
    head(page, name, help, kind);
    let _ = writeln!(page, "{name} {value}");
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// The names are those of Prometheus for gRPC servers.
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
        for line in ["process_start_time_seconds 1.5", "process_resident_memory_bytes 12582912"] {
            assert!(page.lines().any(|found| found == line), "{line} is missing in\n{page}");
        }
        assert!(!page.contains("process_open_fds"), "what the system does not tell is left out");
    }
}
