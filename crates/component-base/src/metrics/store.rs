//! Stores the metrics' values between scrapes.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Desc, Family, Kind, Sample, Value};

/// The series of one metric. Label values are in the declared order.
#[derive(Debug)]
pub struct Series {
    desc: &'static Desc,
    values: Mutex<BTreeMap<Vec<String>, Value>>,
}

impl Series {
    /// Creates the store without series.
    pub fn new(desc: &'static Desc) -> Self {
        Self { desc, values: Mutex::default() }
    }

    /// Creates a series at zero, so that it exists before the first observation.
    pub fn expect(&self, labels: &[&str]) {
        self.change(labels, |_| ());
    }

    /// Adds to a counter. A new series starts at zero.
    pub fn add(&self, labels: &[&str], by: f64) {
        self.change(labels, |value| match value {
            Value::Number(number) => *number += by,
            Value::Histogram { .. } => debug_assert!(false, "{} is a histogram", self.desc.name),
        });
    }

    /// Sets a gauge.
    pub fn set(&self, labels: &[&str], to: f64) {
        self.change(labels, |value| *value = Value::Number(to));
    }

    /// Counts an observation of a histogram.
    pub fn observe(&self, labels: &[&str], observed: f64) {
        self.change(labels, |value| match value {
            Value::Number(_) => debug_assert!(false, "{} is not a histogram", self.desc.name),
            Value::Histogram { buckets, sum, count } => {
                buckets.iter_mut().filter(|(bound, _)| observed <= *bound).for_each(|(_, below)| *below += 1);
                *sum += observed;
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
        let values = self.values();
        let samples = values.iter().map(|(labels, value)| Sample { labels: labels.clone(), value: value.clone() });
        Family { desc, samples: samples.collect() }
    }

    fn change(&self, labels: &[&str], change: impl FnOnce(&mut Value)) {
        debug_assert_eq!(labels.len(), self.desc.labels.len(), "labels of {}", self.desc.name);
        let zero = || match self.desc.kind {
            Kind::Counter | Kind::Gauge => Value::Number(0.0),
            Kind::Histogram(bounds) => {
                let buckets = bounds.iter().map(|bound| (*bound, 0)).collect();
                Value::Histogram { buckets, sum: 0.0, count: 0 }
            }
        };
        let labels = labels.iter().map(|&label| label.to_owned()).collect();
        change(self.values().entry(labels).or_insert_with(zero));
    }

    fn values(&self) -> MutexGuard<'_, BTreeMap<Vec<String>, Value>> {
        self.values.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
