//! Metrics of the running operations, which are read at each scrape.

use std::collections::BTreeMap;
use std::time::Duration;

use component_base::metrics::{Family, Sample, float};

use super::table;

/// Returns the number of running operations of each kind, and the age of the oldest.
pub(super) fn families(running: Vec<(&'static str, Duration)>) -> [Family; 2] {
    let mut kinds: BTreeMap<&str, (u64, Duration)> = BTreeMap::new();
    for (kind, age) in running {
        let (count, oldest) = kinds.entry(kind).or_default();
        *count += 1;
        *oldest = age.max(*oldest);
    }
    let count = kinds.iter().map(|(kind, (count, _))| Sample::number(&[kind], float(*count)));
    let oldest = kinds.iter().map(|(kind, (_, oldest))| Sample::number(&[kind], oldest.as_secs_f64()));
    [
        Family { desc: &table::OPERATIONS, samples: count.collect() },
        Family { desc: &table::OLDEST_OPERATION, samples: oldest.collect() },
    ]
}
