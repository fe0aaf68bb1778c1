//! Computes the patch that removes the start-up taint from a Node's taints.

use serde_json::{Value, json};

use crate::object::taint_key;

#[derive(Debug, Clone, PartialEq)]
pub(super) struct NodeTaints {
    /// The Node's uid, which distinguishes this Node from a later one with the same name.
    pub(super) uid: String,
    pub(super) taints: Vec<Value>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Removal {
    pub(super) uid: String,
    seen: Vec<Value>,
    remaining: Vec<Value>,
}

impl NodeTaints {
    /// Returns the removal, or `None` if no taint has this key.
    pub(super) fn removal(&self, key: &str) -> Option<Removal> {
        let remaining: Vec<Value> = self.taints.iter().filter(|taint| taint_key(taint) != key).cloned().collect();
        let has_it = remaining.len() < self.taints.len();
        has_it.then(|| Removal { uid: self.uid.clone(), seen: self.taints.clone(), remaining })
    }
}

impl Removal {
    /// Returns the patch (RFC 6902). The patch fails as a whole if another Node with the same name has replaced this
    /// one, or if any taint has changed since, so it never overwrites another client's change.
    pub(super) fn patch(&self) -> Value {
        let remaining = if self.remaining.is_empty() { Value::Null } else { json!(self.remaining) };
        json!([
            { "op": "test", "path": "/metadata/uid", "value": self.uid },
            { "op": "test", "path": "/spec/taints", "value": self.seen },
            { "op": "replace", "path": "/spec/taints", "value": remaining },
        ])
    }

    pub(super) fn remaining(&self) -> usize {
        self.remaining.len()
    }
}

#[cfg(test)]
mod tests;
