//! How large the buckets are, and how they are changed.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::api::pattern;

use super::Key;

/// After the action: its calls without filters and pages.
pub(super) const UNFILTERED: &str = ":unfiltered";

/// Size and refill of a bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rate {
    /// Calls at once; 0 lets nothing through.
    pub capacity: u32,
    /// Calls that come back each second, up to `capacity`.
    pub per_second: u32,
}

/// The rates of all buckets: EC2's own, but for those that are named here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// False: nothing is ever throttled by a bucket.
    pub enabled: bool,
    /// By action (`CreateVolume`) or beginning of one (`Describe*`), with `:unfiltered` for describes without filters
    /// and pages. An exact name wins over a beginning, a longer beginning over a shorter one.
    #[serde(default)]
    pub rates: BTreeMap<String, Rate>,
}

/// Limits that make no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("rates: {name:?} {rule}")]
pub struct BadLimits {
    name: String,
    rule: &'static str,
}

impl Limits {
    /// No bucket at all.
    pub fn off() -> Self {
        Self::default()
    }

    /// EC2's documented defaults.
    pub fn ec2() -> Self {
        Self { enabled: true, rates: BTreeMap::new() }
    }

    /// Refuses names that are those of no action.
    ///
    /// # Errors
    /// [`BadLimits`] names the first.
    pub fn check(&self) -> Result<(), BadLimits> {
        for name in self.rates.keys() {
            let action = name.strip_suffix(UNFILTERED);
            let rule = match action {
                Some(action) if !action.starts_with("Describe") && action != "*" => {
                    Some("has :unfiltered, which only describes can be")
                }
                _ => (!pattern::means_any(action.unwrap_or(name), |_| true))
                    .then_some("names no action of the simulated EC2"),
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

/// EC2's own.
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
