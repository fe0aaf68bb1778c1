//! Patterns for actions and names in rules and limits.

use super::Call;

/// Returns whether a pattern matches a name: it is the name itself, or a prefix followed by `*`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// Returns whether a pattern matches an action for which `also` holds.
pub(crate) fn means_any(pattern: &str, also: impl Fn(&str) -> bool) -> bool {
    Call::ACTIONS.iter().any(|action| matches(pattern, action) && also(action))
}
