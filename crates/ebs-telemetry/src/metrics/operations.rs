//! Changes that are under way, read from whoever runs them when the page is asked for.

use std::collections::BTreeMap;
use std::time::Duration;

use super::exposition::{Family, Sample, float};
use super::table;

/// A change that is under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RunningOperation {
    /// What it has to itself, in a word of a closed set.
    pub kind: &'static str,
    /// For how long it has been under way.
    pub age: Duration,
}

/// Knows the changes that are under way; must not block.
pub trait RunningOperations: std::fmt::Debug + Send + Sync + 'static {
    /// All of them.
    fn running(&self) -> Vec<RunningOperation>;
}

/// How many there are of each kind, and how old the oldest is.
pub(super) fn families(source: &dyn RunningOperations) -> [Family; 2] {
    let mut kinds: BTreeMap<&str, (u64, Duration)> = BTreeMap::new();
    for RunningOperation { kind, age } in source.running() {
        let (count, oldest) = kinds.entry(kind).or_default();
        *count += 1;
        *oldest = age.max(*oldest);
    }
    let count = kinds.iter().map(|(kind, (count, _))| Sample::number(&[kind], float(*count)));
    let oldest = kinds.iter().map(|(kind, (_, oldest))| Sample::number(&[kind], oldest.as_secs_f64()));
    [
        Family { row: &table::OPERATIONS, samples: count.collect() },
        Family { row: &table::OLDEST_OPERATION, samples: oldest.collect() },
    ]
}
