//! Reads the list in `rows.tsv`.

/// How a test provokes a reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum How {
    /// A script provokes it.
    Script(String),
    /// A fault rule replaces the reply to one call.
    Fault,
    /// The reason why no test provokes the reply.
    Not(String),
}

/// A quoted reply.
#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) id: String,
    pub(super) action: String,
    /// The HTTP status, or 0 if it is unknown.
    pub(super) status: u16,
    /// The error code. Empty for success.
    pub(super) code: String,
    pub(super) text: String,
    pub(super) how: How,
    /// The name of an [`ebs_ec2::ErrorClass`], or `ok`.
    pub(super) class: String,
}

/// Returns all rows. Panics on an invalid line.
pub(super) fn all() -> Vec<Row> {
    let lines = include_str!("rows.tsv").lines().filter(|line| !line.starts_with('#'));
    let rows: Vec<Row> = lines.map(row).collect();
    for (n, row) in rows.iter().enumerate() {
        assert!(rows[..n].iter().all(|other| other.id != row.id), "{} is a duplicate", row.id);
    }
    rows
}

fn row(line: &str) -> Row {
    let fields: Vec<&str> = line.split('\t').collect();
    let [id, action, _when, status, code, text, source, how, class] = fields[..] else {
        panic!("{line:?} has {} fields", fields.len())
    };
    assert!(!source.is_empty(), "{id}: the source is missing");
    let how = match how.split_once(": ") {
        Some(("no", why)) => How::Not(why.to_owned()),
        Some(("state" | "fault", script)) => How::Script(script.to_owned()),
        None if how == "fault" => How::Fault,
        _ => panic!("{id}: provoked by {how:?}"),
    };
    Row {
        id: id.to_owned(),
        action: action.to_owned(),
        status: if status.is_empty() { 0 } else { status.parse().unwrap() },
        code: code.trim_start_matches('?').to_owned(),
        text: text.to_owned(),
        how,
        class: class.to_owned(),
    }
}

/// Returns true if the text matches the pattern. `{name}` matches any text that is not empty, and `{…}` matches any
/// text.
pub(super) fn fits(pattern: &str, text: &str) -> bool {
    let Some((literal, rest)) = pattern.split_once('{') else { return pattern == text };
    let Some(after) = text.strip_prefix(literal) else { return false };
    let Some((name, rest)) = rest.split_once('}') else { return pattern == text };
    let least = usize::from(name != "…");
    let starts = (0..=after.len()).filter(|at| after.is_char_boundary(*at)).skip(least);
    starts.into_iter().any(|at| fits(rest, &after[at..]))
}

pub(super) fn example(pattern: &str) -> String {
    match pattern.split_once('{').and_then(|(literal, rest)| Some((literal, rest.split_once('}')?))) {
        None => pattern.to_owned(),
        Some((literal, ("…", rest))) => format!("{literal}{}", example(rest)),
        Some((literal, (name, rest))) => format!("{literal}a-{name}{}", example(rest)),
    }
}

#[test]
fn placeholder_matches_nonempty_text_and_ellipsis_any_text() {
    for (pattern, text, expected) in [
        ("plain", "plain", true),
        ("plain", "plainer", false),
        ("The {a} of {b}.", "The end of it.", true),
        ("The {a} of {b}.", "The end of it", false),
        ("The {a}", "The ", false),
        ("cut{…}", "cut", true),
        ("cut{…}", "cut and more", true),
        ("{…}the end", "not the end", true),
        ("{…}", "", true),
    ] {
        assert_eq!(fits(pattern, text), expected, "{pattern:?} and {text:?}");
    }
    for row in all() {
        assert!(fits(&row.text, &example(&row.text)), "{}", row.id);
    }
}
