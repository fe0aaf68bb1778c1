//! Resource tags.

use std::collections::BTreeMap;

/// The tags of one resource, ordered by key so that equal requests consist of equal bytes.
pub type Tags = BTreeMap<String, String>;
