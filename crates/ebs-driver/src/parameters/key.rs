use super::{Entry, ParameterError, Sorted};

pub(super) struct Key<T> {
    /// The key in the spelling of the documentation. The parser accepts any case.
    pub(super) name: &'static str,
    pub(super) set: fn(&mut T, &Entry<'_>) -> Result<(), ParameterError>,
}

macro_rules! keys {
    ($class:ty; $($name:expr => |$target:pat_param, $entry:pat_param| $set:expr;)+) => {
        const KEYS: &[Key<$class>] = &[$(Key {
            name: $name,
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
            let unknown = || ParameterError::Unknown { key: entry.key.to_owned() };
            let key = keys.iter().find(|key| key.name.eq_ignore_ascii_case(lower)).ok_or_else(unknown)?;
            (key.set)(target, entry)?;
        }
        Ok(())
    }
}
