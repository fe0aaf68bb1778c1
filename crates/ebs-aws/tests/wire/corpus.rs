//! Replies as EC2 writes them, one file an action: what other tests cut, bend and replace.

/// The reply to an action, by the action's name in small letters.
pub(crate) fn read(name: &str) -> String {
    let path = format!("{}/tests/corpus/{name}.xml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
