//! Counters of calls, with the names and format of Prometheus' Go library for gRPC.

mod http;
mod page;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::figures::Figures;

pub(crate) use http::MetricsListener;

/// Upper bounds of the duration of calls: in milliseconds, and as printed, in seconds.
const BOUNDS: [(u64, &str); 15] = [
    (1, "0.001"),
    (10, "0.01"),
    (100, "0.1"),
    (300, "0.3"),
    (600, "0.6"),
    (1_000, "1"),
    (3_000, "3"),
    (6_000, "6"),
    (9_000, "9"),
    (20_000, "20"),
    (30_000, "30"),
    (60_000, "60"),
    (90_000, "90"),
    (120_000, "120"),
    (u64::MAX, "+Inf"),
];

/// The calls of this process since its start. A series appears with the first call of its method.
#[derive(Debug)]
pub(crate) struct Metrics {
    calls: Mutex<BTreeMap<Method, Series>>,
    figures: fn() -> Figures,
}

/// `v1.Disk` and `ListDiskIDs`.
type Method = (String, &'static str);

#[derive(Debug, Clone, Default)]
struct Series {
    started: u64,
    received: u64,
    sent: u64,
    handled: BTreeMap<&'static str, u64>,
    /// Count of calls at or below each bound.
    took: [u64; BOUNDS.len()],
    seconds: f64,
}

impl Metrics {
    /// Creates the counters at zero. `figures` queries the system for the resource usage of this process.
    pub(crate) fn new(figures: fn() -> Figures) -> Self {
        Self { calls: Mutex::default(), figures }
    }

    /// Counts a new call.
    pub(crate) fn started(&self, service: &str, method: &'static str) {
        self.with(service, method, |series| series.started += 1);
    }

    /// Counts a message that was decoded.
    pub(crate) fn received(&self, service: &str, method: &'static str) {
        self.with(service, method, |series| series.received += 1);
    }

    /// Counts the end of a call. A success sends a message.
    pub(crate) fn handled(&self, service: &str, method: &'static str, code: &'static str, took: Duration) {
        self.with(service, method, |series| {
            *series.handled.entry(code).or_default() += 1;
            series.sent += u64::from(code == "OK");
            series.seconds += took.as_secs_f64();
            for (below, (bound, _)) in series.took.iter_mut().zip(BOUNDS) {
                *below += u64::from(took <= Duration::from_millis(bound));
            }
        });
    }

    fn with(&self, service: &str, method: &'static str, change: impl FnOnce(&mut Series)) {
        let mut all = self.calls.lock().unwrap_or_else(PoisonError::into_inner);
        change(all.entry((service.to_owned(), method)).or_default());
    }

    fn now(&self) -> BTreeMap<Method, Series> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
