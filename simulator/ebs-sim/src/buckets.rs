//! The token buckets of the EC2 API: one for each action, and one for unfiltered calls of each describe.
//!
//! The code reads no clock: callers pass the time. Source of the rates: the EC2 developer guide, "Request throttling".

mod bucket;
mod limits;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::SystemTime;

use serde::Serialize;

use crate::api::{ACCOUNT_ID, Call, Fault};

pub use limits::{BadLimits, Limits, Rate};

use bucket::Bucket;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    action: &'static str,
    /// Whether the call is a describe without filters or paging: it has no parameters, or only ids.
    unfiltered: bool,
}

impl Key {
    pub(crate) fn of(call: &Call) -> Self {
        let action = call.action();
        Self { action, unfiltered: action.starts_with("Describe") && !is_narrow(call) }
    }

    fn name(self) -> String {
        format!("{}{}", self.action, if self.unfiltered { limits::UNFILTERED } else { "" })
    }
}

fn is_narrow(call: &Call) -> bool {
    macro_rules! narrow {
        ($c:expr) => {
            !$c.filters.is_empty() || $c.max_results.is_some() || $c.next_token.is_some()
        };
    }
    match call {
        Call::DescribeVolumes(c) => narrow!(c),
        Call::DescribeVolumeStatus(c) => narrow!(c),
        Call::DescribeVolumesModifications(c) => narrow!(c),
        Call::DescribeSnapshots(c) => narrow!(c),
        Call::DescribeTags(c) => narrow!(c),
        Call::DescribeInstances(c) => narrow!(c),
        Call::DescribeInstanceTypes(c) => narrow!(c),
        Call::DescribeFastSnapshotRestores(c) => narrow!(c),
        Call::DescribeLockedSnapshots(c) => narrow!(c),
        Call::DescribeAvailabilityZones(c) => !c.filters.is_empty(),
        _ => false,
    }
}

/// How full a bucket is.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// The action, with the suffix `:unfiltered` for a describe without filters or paging.
    pub bucket: String,
    /// The capacity and refill rate of the bucket.
    pub rate: Rate,
    /// The number of calls that the bucket would allow now.
    pub tokens: f64,
}

/// All token buckets of an account. A bucket is full before its first call.
#[derive(Debug)]
pub(crate) struct Buckets {
    limits: Limits,
    buckets: HashMap<Key, Bucket>,
}

impl Buckets {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, buckets: HashMap::new() }
    }

    pub(crate) fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Sets new rates. Each bucket keeps its tokens, up to the new capacity.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Takes one token for a call. `share` is the fraction of the bucket that other clients leave unused, at most 1.
    pub(crate) fn draw(&mut self, now: SystemTime, call: &Call, share: f64) -> Result<(), Fault> {
        if !self.limits.enabled {
            return Ok(());
        }
        let key = Key::of(call);
        let rate = self.limits.rate(key);
        let bucket = self.buckets.entry(key).or_insert_with(|| Bucket::full(rate, now));
        if bucket.draw(now, rate, share) { Ok(()) } else { Err(exceeded_by(call.action())) }
    }

    pub(crate) fn levels(&mut self, now: SystemTime, share: impl Fn(&'static str) -> f64) -> Vec<Level> {
        let limits = &self.limits;
        let mut levels: Vec<Level> = self
            .buckets
            .iter_mut()
            .map(|(key, bucket)| {
                let rate = limits.rate(*key);
                Level { bucket: key.name(), rate, tokens: bucket.level(now, rate, share(key.action)) }
            })
            .collect();
        levels.sort_by(|a, b| a.bucket.cmp(&b.bucket));
        levels
    }
}

/// Returns the error that EC2 has returned for an empty bucket since 2026.
fn exceeded_by(action: &str) -> Fault {
    let message = format!(
        "Request limit exceeded. Account {ACCOUNT_ID} has been throttled on ec2:{action} because it exceeded its request \
         rate limit."
    );
    Fault::with_status(503, "RequestLimitExceeded", message)
}

/// Returns EC2's older error for an empty bucket. EC2 may still use it.
pub(crate) fn exceeded() -> Fault {
    Fault::with_status(503, "RequestLimitExceeded", "Request limit exceeded.")
}
