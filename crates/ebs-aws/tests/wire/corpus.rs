//! Replies in EC2's format, one file for each action. Other tests truncate and change them.

/// Returns the reply to an action. The file is named after the action, in snake case.
pub(crate) fn read(action: &str) -> String {
    let mut name = String::new();
    for letter in action.chars() {
        if letter.is_ascii_uppercase() && !name.is_empty() {
            name.push('_');
        }
        name.push(letter.to_ascii_lowercase());
    }
    let path = format!("{}/tests/corpus/{name}.xml", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
