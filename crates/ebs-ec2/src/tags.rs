//! Resource tags.

use std::collections::BTreeMap;

/// Tags of one resource, ordered by key so that equal requests have equal bytes.
pub type Tags = BTreeMap<String, String>;
