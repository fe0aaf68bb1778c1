//! Patterns for actions and names, in rules and limits.

use super::Call;

/// True when a name is meant by a pattern: the name itself, or a beginning of it followed by `*`.
pub(crate) fn matches(pattern: &str, name: &str) -> bool {
    match pattern.strip_suffix('*') {
        Some(beginning) => name.starts_with(beginning),
        None => pattern == name,
    }
}

/// True when a pattern means an action for which `also` holds.
pub(crate) fn means_any(pattern: &str, also: impl Fn(&str) -> bool) -> bool {
    Call::ACTIONS.iter().any(|action| matches(pattern, action) && also(action))
}
