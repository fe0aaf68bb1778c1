//! Resource tags.

use std::collections::BTreeMap;

/// Tags of one resource, ordered by key so that equal requests are equal bytes.
pub type Tags = BTreeMap<String, String>;
