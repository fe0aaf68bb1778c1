//! Stores numbers between scrapes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::exposition::{Family, Sample, Value};
use super::table::{Kind, Row};

/// The series of a counter or a gauge.
#[derive(Debug)]
pub(super) struct Numbers {
    row: &'static Row,
    series: Mutex<BTreeMap<Vec<String>, f64>>,
}

/// The series of a histogram.
#[derive(Debug)]
pub(super) struct Histograms {
    row: &'static Row,
    bounds: &'static [f64],
    series: Mutex<BTreeMap<Vec<String>, Observed>>,
}

#[derive(Debug, Clone, Default)]
struct Observed {
    /// Number of observations per bound, each observation once. The last entry counts observations above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

fn owned(row: &Row, labels: &[&str]) -> Vec<String> {
    debug_assert_eq!(labels.len(), row.labels().len(), "labels of {}", row.name());
    labels.iter().map(|&label| label.to_owned()).collect()
}

impl Numbers {
    /// Creates the store without series.
    pub(super) fn new(row: &'static Row) -> Self {
        Self { row, series: Mutex::default() }
    }

    /// Adds to the series with these labels, in the row's order. A new series starts at zero.
    pub(super) fn add(&self, labels: &[&str], by: f64) {
        *self.series().entry(owned(self.row, labels)).or_default() += by;
    }

    /// Sets the series.
    pub(super) fn set(&self, labels: &[&str], to: f64) {
        self.series().insert(owned(self.row, labels), to);
    }

    /// Returns all series.
    pub(super) fn family(&self) -> Family {
        self.family_as(self.row)
    }

    /// Returns all series under the name of another row, which has the same labels.
    pub(super) fn family_as(&self, row: &'static Row) -> Family {
        let sample =
            |(labels, number): (&Vec<String>, &f64)| Sample { labels: labels.clone(), value: Value::Number(*number) };
        Family { row, samples: self.series().iter().map(sample).collect() }
    }

    fn series(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, f64>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Histograms {
    /// Creates the store without series.
    pub(super) fn new(row: &'static Row) -> Self {
        let bounds = match row.kind() {
            Kind::Histogram(bounds) => bounds,
            Kind::Counter | Kind::Gauge | Kind::DiskHistogram => &[],
        };
        Self { row, bounds, series: Mutex::default() }
    }

    /// Creates a series at zero.
    pub(super) fn expect(&self, labels: &[&str]) {
        self.change(labels, |_| ());
    }

    /// Counts an observation.
    pub(super) fn observe(&self, labels: &[&str], value: f64) {
        let at = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.change(labels, |observed| {
            observed.sum += value;
            if let Some(count) = observed.counts.get_mut(at) {
                *count += 1;
            }
        });
    }

    /// Returns all series.
    pub(super) fn family(&self) -> Family {
        self.family_as(self.row)
    }

    /// Returns all series under the name of another row, which has the same labels and bounds.
    pub(super) fn family_as(&self, row: &'static Row) -> Family {
        let sample = |(labels, observed): (&Vec<String>, &Observed)| Sample {
            labels: labels.clone(),
            value: cumulative(self.bounds.iter().copied(), &observed.counts, observed.sum),
        };
        Family { row, samples: self.series().iter().map(sample).collect() }
    }

    fn change(&self, labels: &[&str], change: impl FnOnce(&mut Observed)) {
        let zero = || Observed { counts: vec![0; self.bounds.len() + 1], sum: 0.0 };
        change(self.series().entry(owned(self.row, labels)).or_insert_with(zero));
    }

    fn series(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Observed>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a histogram from counts per bound. In Prometheus, each bucket includes the counts of all lower ones. There
/// is at most one more count than bounds, for observations above all bounds.
pub(super) fn cumulative(bounds: impl IntoIterator<Item = f64>, counts: &[u64], sum: f64) -> Value {
    let mut below = 0;
    let bucket = |(bound, count): (f64, &u64)| {
        below += count;
        (bound, below)
    };
    let buckets = bounds.into_iter().zip(counts).map(bucket).collect();
    Value::Histogram { buckets, sum, count: counts.iter().sum() }
}
