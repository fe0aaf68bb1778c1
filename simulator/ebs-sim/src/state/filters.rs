//! Filters: their names, wildcards and limits.

use ebs_ec2::Tags;

use crate::api::{Fault, Filter};
use crate::iam::matches_wildcard;

use super::faults::invalid_value;

static NO_TAGS: Tags = Tags::new();

const MAX_VALUES: usize = 200;

pub(super) trait Filterable {
    /// Returns the object's values for filters of this name. The filter matches if any value in the filter matches any
    /// returned value.
    fn field(&self, name: &str) -> Vec<String>;
    fn tags(&self) -> &Tags {
        &NO_TAGS
    }
}

/// The filters of each action in EC2's model. Filters for features that the simulator lacks match nothing.
const OF_ACTIONS: &str = include_str!("filters.txt");

/// Rejects filters that the action does not support, and more values than EC2 accepts.
pub(super) fn check(action: &str, filters: &[Filter]) -> Result<(), Fault> {
    let mut actions = OF_ACTIONS.split("\n\n").map(|of_one| of_one.split_whitespace());
    let known = actions.find(|names| names.clone().next() == Some(action)).expect("every describe is in the list");
    for filter in filters {
        let name = if filter.name.starts_with("tag:") { "tag:*" } else { filter.name.as_str() };
        if !known.clone().skip(1).any(|known| known == name) {
            return Err(invalid_value(format!("The filter '{}' is invalid", filter.name)));
        }
        if filter.values.is_empty() {
            return Err(invalid_value(format!("The filter '{}' has no value", filter.name)));
        }
    }
    if filters.iter().map(|f| f.values.len()).sum::<usize>() > MAX_VALUES {
        return Err(Fault::new(
            "FilterLimitExceeded",
            format!("The maximum number of filter values specified on a single call is {MAX_VALUES}"),
        ));
    }
    Ok(())
}

pub(super) fn matches(filters: &[Filter], object: &dyn Filterable) -> bool {
    filters.iter().all(|filter| {
        let fields: Vec<String> = if let Some(key) = filter.name.strip_prefix("tag:") {
            object.tags().get(key).cloned().into_iter().collect()
        } else if filter.name == "tag-key" {
            object.tags().keys().cloned().collect()
        } else if filter.name == "tag-value" {
            object.tags().values().cloned().collect()
        } else {
            object.field(&filter.name)
        };
        fields.iter().any(|field| filter.values.iter().any(|value| matches_wildcard(value, field)))
    })
}
