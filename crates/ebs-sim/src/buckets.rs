//! The token buckets of the EC2 API: one for each action, and for a describe one more for calls that ask broadly.
//!
//! Pure: the time is given. Source of the rates: the EC2 developer guide, "Request throttling".

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

/// Which bucket a call draws on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    action: &'static str,
    /// A describe without filters and pages: nothing, or bare ids.
    unfiltered: bool,
}

impl Key {
    pub(crate) fn of(call: &Call) -> Self {
        let action = call.action();
        Self { action, unfiltered: action.starts_with("Describe") && !is_narrow(call) }
    }

    /// Its name in limits and reports.
    fn name(self) -> String {
        format!("{}{}", self.action, if self.unfiltered { limits::UNFILTERED } else { "" })
    }
}

/// True when a describe has filters or goes page by page.
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

/// What is in a bucket.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Level {
    /// The action, with `:unfiltered` for the broad describes.
    pub bucket: String,
    /// Its size and refill.
    pub rate: Rate,
    /// Calls that it would let through now.
    pub tokens: f64,
}

/// All buckets of an account; those nobody has drawn on are full.
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

    /// New rates from now on. What is in the buckets stays, as far as it fits.
    pub(crate) fn set_limits(&mut self, limits: Limits) {
        self.limits = limits;
    }

    /// Draws one token for a call. `share` is what another client leaves, 1 for all of it.
    ///
    /// # Errors
    /// `RequestLimitExceeded`: nothing is left, and nothing was done.
    pub(crate) fn draw(&mut self, now: SystemTime, call: &Call, share: f64) -> Result<(), Fault> {
        if !self.limits.enabled {
            return Ok(());
        }
        let key = Key::of(call);
        let rate = self.limits.rate(key);
        let bucket = self.buckets.entry(key).or_insert_with(|| Bucket::full(rate, now));
        if bucket.draw(now, rate, share) { Ok(()) } else { Err(exceeded_by(call.action())) }
    }

    /// The levels of all buckets that were drawn on.
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

/// What EC2 answers when a bucket is empty, since 2026.
fn exceeded_by(action: &str) -> Fault {
    let message = format!(
        "Request limit exceeded. Account {ACCOUNT_ID} has been throttled on ec2:{action} because it exceeded its request \
         rate limit."
    );
    Fault::with_status(503, "RequestLimitExceeded", message)
}

/// What it has always answered, and still may.
pub(crate) fn exceeded() -> Fault {
    Fault::with_status(503, "RequestLimitExceeded", "Request limit exceeded.")
}
