//! Stores the metrics' values between scrapes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Desc, Family, Kind, Sample, Value};

/// The series of one counter or gauge.
#[derive(Debug)]
pub struct Numbers {
    desc: &'static Desc,
    series: Mutex<BTreeMap<Vec<String>, f64>>,
}

/// The series of one histogram.
#[derive(Debug)]
pub struct Histograms {
    desc: &'static Desc,
    bounds: &'static [f64],
    series: Mutex<BTreeMap<Vec<String>, Observed>>,
}

#[derive(Debug, Clone, Default)]
struct Observed {
    /// The number of observations in each bucket. The last entry counts observations above all bounds.
    counts: Vec<u64>,
    sum: f64,
}

fn owned(desc: &Desc, labels: &[&str]) -> Vec<String> {
    debug_assert_eq!(labels.len(), desc.labels.len(), "labels of {}", desc.name);
    labels.iter().map(|&label| label.to_owned()).collect()
}

impl Numbers {
    /// Creates the store without series.
    pub fn new(desc: &'static Desc) -> Self {
        Self { desc, series: Mutex::default() }
    }

    /// Adds to the series with these label values, which are in the declared order. A new series starts at zero.
    pub fn add(&self, labels: &[&str], by: f64) {
        *self.series().entry(owned(self.desc, labels)).or_default() += by;
    }

    /// Sets the value of the series with these label values.
    pub fn set(&self, labels: &[&str], to: f64) {
        self.series().insert(owned(self.desc, labels), to);
    }

    /// Returns all series.
    pub fn family(&self) -> Family {
        self.family_as(self.desc)
    }

    /// Returns all series under another declaration, which must have the same labels.
    pub fn family_as(&self, desc: &'static Desc) -> Family {
        let sample =
            |(labels, number): (&Vec<String>, &f64)| Sample { labels: labels.clone(), value: Value::Number(*number) };
        Family { desc, samples: self.series().iter().map(sample).collect() }
    }

    fn series(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, f64>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Histograms {
    /// Creates the store without series.
    pub fn new(desc: &'static Desc) -> Self {
        let bounds = match desc.kind {
            Kind::Histogram(bounds) => bounds,
            Kind::Counter | Kind::Gauge => &[],
        };
        Self { desc, bounds, series: Mutex::default() }
    }

    /// Creates a series at zero, so that it exists before the first observation.
    pub fn expect(&self, labels: &[&str]) {
        self.change(labels, |_| ());
    }

    /// Counts an observation.
    pub fn observe(&self, labels: &[&str], value: f64) {
        let at = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        self.change(labels, |observed| {
            observed.sum += value;
            if let Some(count) = observed.counts.get_mut(at) {
                *count += 1;
            }
        });
    }

    /// Returns all series.
    pub fn family(&self) -> Family {
        self.family_as(self.desc)
    }

    /// Returns all series under another declaration, which must have the same labels and bounds.
    pub fn family_as(&self, desc: &'static Desc) -> Family {
        let sample = |(labels, observed): (&Vec<String>, &Observed)| Sample {
            labels: labels.clone(),
            value: cumulative(self.bounds.iter().copied(), &observed.counts, observed.sum),
        };
        Family { desc, samples: self.series().iter().map(sample).collect() }
    }

    fn change(&self, labels: &[&str], change: impl FnOnce(&mut Observed)) {
        let zero = || Observed { counts: vec![0; self.bounds.len() + 1], sum: 0.0 };
        change(self.series().entry(owned(self.desc, labels)).or_insert_with(zero));
    }

    fn series(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Observed>> {
        self.series.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns a histogram from the counts of its buckets. In Prometheus, each bucket includes the counts of all lower
/// ones. `counts` has at most one entry more than `bounds`, for observations above all bounds.
pub fn cumulative(bounds: impl IntoIterator<Item = f64>, counts: &[u64], sum: f64) -> Value {
    let mut below = 0;
    let bucket = |(bound, count): (f64, &u64)| {
        below += count;
        (bound, below)
    };
    let buckets = bounds.into_iter().zip(counts).map(bucket).collect();
    Value::Histogram { buckets, sum, count: counts.iter().sum() }
}
