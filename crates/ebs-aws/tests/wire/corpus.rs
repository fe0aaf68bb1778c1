//! Replies in EC2's format, one file per action, which other tests truncate and change.

/// Returns the reply to an action, by the action's name in snake case.
pub(crate) fn read(name: &str) -> String {
    let path = format!("{}/tests/corpus/{name}.xml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
