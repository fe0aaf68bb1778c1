//! Variables of the environment.

/// An environment variable; empty is the same as absent.
pub(crate) fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
