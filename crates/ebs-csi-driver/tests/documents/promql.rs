//! Finds the names in a PromQL expression: metrics with their selectors, and grouping labels.

/// A metric that an expression selects, and the labels of its selector.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Selected {
    pub(crate) metric: String,
    pub(crate) labels: Vec<String>,
}

fn is_of_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || character == '_'
}

/// Returns the expression without the text between its quotes.
fn without_texts(expression: &str) -> String {
    let mut inside = false;
    expression
        .chars()
        .filter(|c| {
            if *c == '"' {
                inside = !inside;
                true
            } else {
                !inside
            }
        })
        .collect()
}

/// Returns the metrics of an expression: names before a `{`, and all names with one of `prefixes`.
pub(crate) fn selected(expression: &str, prefixes: &[&str]) -> Vec<Selected> {
    let text = without_texts(expression);
    let mut found = Vec::new();
    let mut rest = text.as_str();
    while let Some(start) = rest.find(is_of_name) {
        let after = &rest[start..];
        let end = after.find(|c| !is_of_name(c)).unwrap_or(after.len());
        let (name, behind) = after.split_at(end);
        rest = behind;
        let selector = behind.strip_prefix('{').and_then(|inside| inside.split_once('}'));
        if let Some((selector, next)) = selector {
            let labels = selector.split(',').filter_map(|pair| pair.split_once(['=', '!']));
            let labels = labels.map(|(label, _)| label.trim().to_owned()).collect();
            found.push(Selected { metric: name.to_owned(), labels });
            rest = next;
        } else if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
            found.push(Selected { metric: name.to_owned(), labels: Vec::new() });
        }
    }
    found
}

/// Returns the labels in `by (…)`, `without (…)`, `on (…)` and `ignoring (…)`.
pub(crate) fn grouped_by(expression: &str) -> Vec<String> {
    let text = without_texts(expression);
    let mut labels = Vec::new();
    for word in ["by", "without", "on", "ignoring"] {
        for (at, _) in text.match_indices(word) {
            let (before, after) = (&text[..at], text[at + word.len()..].trim_start());
            let Some((inside, _)) = after.strip_prefix('(').and_then(|rest| rest.split_once(')')) else { continue };
            if !before.ends_with(is_of_name) {
                labels.extend(inside.split(',').map(|label| label.trim().to_owned()).filter(|label| !label.is_empty()));
            }
        }
    }
    labels
}

/// Returns the names in `{{…}}` of a legend or an annotation, without `$labels.`.
pub(crate) fn templated(text: &str) -> Vec<String> {
    let parts = text.split("{{").skip(1).filter_map(|rest| rest.split_once("}}"));
    parts.map(|(inside, _)| inside.trim().trim_start_matches("$labels.").to_owned()).collect()
}
