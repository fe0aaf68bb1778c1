//! The keys of a class: each with its documentation and its setter, so that every key is both supported and documented.

use super::{Entry, ParameterError, Sorted};

/// A key of a class and its documentation in Markdown. `controller/tests/documents.rs` writes the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// The key in the spelling of the documentation. The parser accepts any case.
    pub key: &'static str,
    pub values: &'static str,
    /// The default, or an empty string when there is no default.
    pub default: &'static str,
    pub effect: &'static str,
    /// The conflicting parameters or options, or an empty string when nothing conflicts.
    pub conflicts: &'static str,
}

/// A key of the class that is parsed into `T`.
pub(super) struct Key<T> {
    pub(super) text: Described,
    /// Parses the value.
    pub(super) set: fn(&mut T, &Entry<'_>) -> Result<(), ParameterError>,
}

/// Declares the keys of a class in the order of the documentation: the key, its values, its effect, its default and its
/// conflicts, and how the parser sets it.
macro_rules! keys {
    ($class:ty; $($key:expr, $values:expr, $effect:expr $(, default $default:expr)? $(, not $conflicts:expr)?
        => |$target:pat_param, $entry:pat_param| $set:expr;)+) => {
        const KEYS: &[Key<$class>] = &[$(Key {
            text: Described {
                key: $key,
                values: $values,
                effect: $effect,
                default: concat!($($default)?),
                conflicts: concat!($($conflicts)?),
            },
            set: |$target, $entry| {
                $set;
                Ok(())
            },
        }),+];
    };
}
pub(super) use keys;

impl Sorted<'_> {
    /// Sets all entries except tags, in alphabetical order.
    pub(super) fn set_in<T>(&self, target: &mut T, keys: &[Key<T>]) -> Result<(), ParameterError> {
        for (lower, entry) in &self.entries {
            let key =
                keys.iter().find(|key| key.text.key.eq_ignore_ascii_case(lower)).ok_or_else(|| entry.unknown())?;
            (key.set)(target, entry)?;
        }
        Ok(())
    }
}
