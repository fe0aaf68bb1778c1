//! Filters: their names, wildcards and limits.

use std::collections::HashSet;

use ebs_ec2::Tags;

use crate::api::{Fault, Filter};
use crate::iam::{has_wildcard, matches_wildcard};

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

/// A filter whose values are ready to be compared with many objects.
#[derive(Debug, Clone)]
pub(super) struct Matcher<'a> {
    name: &'a str,
    literals: HashSet<&'a str>,
    patterns: Vec<&'a str>,
}

impl<'a> Matcher<'a> {
    pub(super) fn of(filter: &'a Filter) -> Self {
        let values = filter.values.iter().map(String::as_str);
        let (patterns, literals): (Vec<&str>, Vec<&str>) = values.partition(|value| has_wildcard(value));
        Self { name: &filter.name, literals: literals.into_iter().collect(), patterns }
    }

    /// Returns the only values that the field can have, or `None` if the filter has another name or a wildcard.
    pub(super) fn literals_of(&self, name: &str) -> Option<&HashSet<&'a str>> {
        (self.name == name && self.patterns.is_empty()).then_some(&self.literals)
    }

    fn accepts(&self, value: &str) -> bool {
        self.literals.contains(value) || self.patterns.iter().any(|pattern| matches_wildcard(pattern, value))
    }

    pub(super) fn matches(&self, object: &dyn Filterable) -> bool {
        if let Some(key) = self.name.strip_prefix("tag:") {
            object.tags().get(key).is_some_and(|value| self.accepts(value))
        } else if self.name == "tag-key" {
            object.tags().keys().any(|key| self.accepts(key))
        } else if self.name == "tag-value" {
            object.tags().values().any(|value| self.accepts(value))
        } else {
            object.field(self.name).iter().any(|field| self.accepts(field))
        }
    }
}

pub(super) fn matches(filters: &[Filter], object: &dyn Filterable) -> bool {
    filters.iter().all(|filter| Matcher::of(filter).matches(object))
}
