//! Patterns for actions and names, as fault rules and rate limits use them.

use super::Call;

/// Returns whether a pattern matches a name. A pattern is an exact name, or a prefix followed by `*`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// Returns whether a pattern matches at least one action that also satisfies `also`.
pub(crate) fn means_any(pattern: &str, also: impl Fn(&str) -> bool) -> bool {
    Call::ACTIONS.iter().any(|action| matches(pattern, action) && also(action))
}
