//! The sizes of the buckets, and how to change them.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::pattern;

use super::Key;

/// The suffix of an action's name for its calls without filters or paging.
pub(super) const UNFILTERED: &str = ":unfiltered";

/// The capacity and refill rate of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Maximum burst in calls; 0 allows no calls.
    pub capacity: u32,
    /// Calls added each second, up to `capacity`.
    pub per_second: u32,
}

/// The rates of all buckets. A bucket that is not named here has EC2's default rate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// Whether the buckets throttle calls.
    pub enabled: bool,
    /// Rates by action (`CreateVolume`) or prefix (`Describe*`), with the suffix `:unfiltered` for describe calls
    /// without filters or paging. An exact name overrides a prefix, and a longer prefix overrides a shorter one.
    #[serde(default)]
    pub rates: BTreeMap<String, Rate>,
}

/// Invalid limits.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("parse rate {name:?}: {rule}")]
pub struct BadLimits {
    name: String,
    rule: &'static str,
}

impl Limits {
    /// Returns limits that disable all buckets.
    pub fn off() -> Self {
        Self::default()
    }

    /// Returns EC2's documented defaults.
    pub fn ec2() -> Self {
        Self { enabled: true, rates: BTreeMap::new() }
    }

    /// Rejects names that match no action.
    pub fn check(&self) -> Result<(), BadLimits> {
        for name in self.rates.keys() {
            let action = name.strip_suffix(UNFILTERED);
            let rule = match action {
                Some(action) if !action.starts_with("Describe") && action != "*" => {
                    Some(":unfiltered is only valid for a Describe action")
                }
                _ => (!pattern::means_any(action.unwrap_or(name), |_| true))
                    .then_some("the simulated EC2 has no such action"),
            };
            if let Some(rule) = rule {
                return Err(BadLimits { name: name.clone(), rule });
            }
        }
        Ok(())
    }

    pub(super) fn rate(&self, key: Key) -> Rate {
        let fits = |pattern: &str| {
            let (pattern, unfiltered) = match pattern.strip_suffix(UNFILTERED) {
                Some(action) => (action, true),
                None => (pattern, false),
            };
            unfiltered == key.unfiltered && pattern::matches(pattern, key.action)
        };
        let nearness = |pattern: &str| {
            let action = pattern.trim_end_matches(UNFILTERED);
            (action.trim_end_matches('*').len(), !action.ends_with('*'))
        };
        let named = self.rates.iter().filter(|(name, _)| fits(name));
        let nearest = named.max_by_key(|(name, _)| nearness(name));
        nearest.map_or_else(|| default_rate(key), |(_, rate)| *rate)
    }
}

fn default_rate(key: Key) -> Rate {
    let (capacity, per_second) = match key.action {
        "CreateVolume" | "DeleteVolume" | "CreateSnapshot" | "DeleteSnapshot" => (100, 5),
        "CreateTags" | "DeleteTags" => (100, 10),
        describe if describe.starts_with("Describe") => {
            if key.unfiltered {
                (50, 10)
            } else {
                (100, 20)
            }
        }
        _ => (50, 5),
    };
    Rate { capacity, per_second }
}
