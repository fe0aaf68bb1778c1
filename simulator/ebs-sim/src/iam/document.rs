//! Policy documents as JSON. The parser rejects unsupported elements, because a partly interpreted policy would allow
//! or deny the wrong calls.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use super::condition::Condition;
use super::pattern::{ArnPattern, Pattern};

/// The only version of the policy language that has variables.
const VERSION: &str = "2012-10-17";

/// Why a policy document cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    /// The file could not be read.
    #[error("read policy {path}")]
    Read { path: PathBuf, source: std::io::Error },
    /// Invalid JSON.
    #[error("parse policy {name}: not JSON")]
    Json { name: String, source: serde_json::Error },
    /// An invalid or unknown element.
    #[error("parse policy {name}: {place} {problem}")]
    Element { name: String, place: String, problem: String },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    pub(super) name: String,
    pub(super) statements: Vec<Statement>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) name: String,
    pub(super) allows: bool,
    pub(super) actions: Vec<Pattern>,
    /// `NotAction`: the statement applies to all actions except these.
    pub(super) but_actions: bool,
    pub(super) resources: Vec<ArnPattern>,
    /// `NotResource`: the statement applies to all resources except these.
    pub(super) but_resources: bool,
    pub(super) conditions: Vec<Condition>,
}

impl Policy {
    /// Reads a document from a file and names it after the file.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = fs::read_to_string(path).map_err(|source| PolicyError::Read { path: path.to_owned(), source })?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Parses a document.
    pub fn parse(name: &str, text: &str) -> Result<Self, PolicyError> {
        let value: Value =
            serde_json::from_str(text).map_err(|source| PolicyError::Json { name: name.to_owned(), source })?;
        let statements = document(&value).map_err(|Wrong { place, problem }| PolicyError::Element {
            name: name.to_owned(),
            place,
            problem,
        })?;
        Ok(Self { name: name.to_owned(), statements })
    }

    /// Returns the name that [`Policy::parse`] or [`Policy::read`] gave the policy.
    pub fn name(&self) -> &str {
        &self.name
    }
}

struct Wrong {
    place: String,
    problem: String,
}

fn wrong<T>(place: impl Into<String>, problem: impl Into<String>) -> Result<T, Wrong> {
    Err(Wrong { place: place.into(), problem: problem.into() })
}

fn document(value: &Value) -> Result<Vec<Statement>, Wrong> {
    let Value::Object(fields) = value else { return wrong("document", "is not a JSON object") };
    for field in fields.keys() {
        if !["Version", "Id", "Statement"].contains(&field.as_str()) {
            return wrong(format!("field {field}"), "is unknown; use Version, Id and Statement");
        }
    }
    if fields.get("Version").and_then(Value::as_str) != Some(VERSION) {
        return wrong("field Version", format!("must be {VERSION:?}; variables are plain text in other versions"));
    }
    let statements = match fields.get("Statement") {
        Some(Value::Array(statements)) => statements.as_slice(),
        Some(one @ Value::Object(_)) => std::slice::from_ref(one),
        _ => return wrong("field Statement", "must be a statement or a list of statements"),
    };
    statements.iter().enumerate().map(|(at, value)| statement(at, value)).collect()
}

fn statement(at: usize, value: &Value) -> Result<Statement, Wrong> {
    let number = format!("statement {}", at + 1);
    let Value::Object(fields) = value else { return wrong(number, "is not a JSON object") };
    let name = match fields.get("Sid") {
        Some(Value::String(sid)) => format!("{number} ({sid})"),
        Some(_) => return wrong(format!("{number}, field Sid"), "is not text"),
        None => number,
    };
    for field in fields.keys() {
        const KNOWN: [&str; 7] = ["Sid", "Effect", "Action", "NotAction", "Resource", "NotResource", "Condition"];
        if field.ends_with("Principal") {
            return wrong(format!("{name}, field {field}"), "is invalid in an identity-based policy");
        }
        if !KNOWN.contains(&field.as_str()) {
            return wrong(format!("{name}, field {field}"), format!("is unknown; use {}", KNOWN.join(", ")));
        }
    }
    let allows = match fields.get("Effect").and_then(Value::as_str) {
        Some("Allow") => true,
        Some("Deny") => false,
        _ => return wrong(format!("{name}, field Effect"), "must be \"Allow\" or \"Deny\""),
    };
    let (actions, but_actions) = one_of(&name, fields, "Action", "NotAction", action)?;
    let (resources, but_resources) = one_of(&name, fields, "Resource", "NotResource", ArnPattern::parse)?;
    let conditions = conditions(&name, fields.get("Condition"))?;
    Ok(Statement { name, allows, actions, but_actions, resources, but_resources, conditions })
}

/// Returns the values of `field` or of its negated form, and whether it is the negated form. Exactly one of them must
/// exist.
fn one_of<T>(
    statement: &str,
    fields: &Map<String, Value>,
    field: &str,
    opposite: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<(Vec<T>, bool), Wrong> {
    let (name, value) = match (fields.get(field), fields.get(opposite)) {
        (Some(value), None) => (field, value),
        (None, Some(value)) => (opposite, value),
        _ => {
            return wrong(
                format!("{statement}, field {field}"),
                format!("requires exactly one of {field} and {opposite}"),
            );
        }
    };
    let place = format!("{statement}, field {name}");
    let texts = texts(&place, value)?;
    let parsed = texts.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>();
    match parsed {
        Ok(parsed) => Ok((parsed, name == opposite)),
        Err(problem) => wrong(place, problem),
    }
}

fn action(text: &str) -> Result<Pattern, String> {
    if text != "*" && !text.contains(':') {
        return Err(format!("has {text:?} without a service; use \"*\" or service:Action"));
    }
    Pattern::parse(text, true)
}

/// Parses a string or a list of strings. A boolean counts as a string, as in IAM.
fn texts(place: &str, value: &Value) -> Result<Vec<String>, Wrong> {
    let text = |value: &Value| match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(truth) => Ok(truth.to_string()),
        other => wrong(place, format!("is {other}, not text")),
    };
    match value {
        Value::Array(values) if values.is_empty() => wrong(place, "is an empty list"),
        Value::Array(values) => values.iter().map(text).collect(),
        one => Ok(vec![text(one)?]),
    }
}

fn conditions(statement: &str, value: Option<&Value>) -> Result<Vec<Condition>, Wrong> {
    let operators = match value {
        None => return Ok(Vec::new()),
        Some(Value::Object(operators)) => operators,
        Some(_) => return wrong(format!("{statement}, field Condition"), "is not a JSON object"),
    };
    let mut conditions = Vec::new();
    for (operator, keys) in operators {
        let place = format!("{statement}, field Condition.{operator}");
        let Value::Object(keys) = keys else { return wrong(place, "is not a JSON object") };
        for (key, values) in keys {
            let place = format!("{place}.{key}");
            let values = texts(&place, values)?;
            match Condition::parse(operator, key, &values) {
                Ok(condition) => conditions.push(condition),
                Err(problem) => return wrong(place, problem),
            }
        }
    }
    Ok(conditions)
}
