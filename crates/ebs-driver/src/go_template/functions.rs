//! The template functions except `and` and `or`, which do not evaluate all their arguments.

use super::compare;
use super::printf;
use super::value::Value;

const NAMES: &str = "and or not eq ne lt le gt ge len print printf println slice index lastIndex toUpper toLower contains \
                     field substring html js call urlquery";

pub(super) fn exists(name: &str) -> bool {
    NAMES.split(' ').any(|known| known == name)
}

type Outcome<'a> = Result<Value<'a>, String>;

pub(super) fn call<'a>(name: &str, arguments: &[Value<'a>]) -> Outcome<'a> {
    match (name, arguments) {
        ("not", [value]) => Ok(Value::Bool(!value.truth())),
        ("eq", [first, others @ ..]) => compare::eq(first, others).map(Value::Bool),
        ("ne", [a, b]) => compare::eq(a, std::slice::from_ref(b)).map(|equal| Value::Bool(!equal)),
        ("lt", [a, b]) => compare::order(a, b).map(|o| Value::Bool(o.is_lt())),
        ("le", [a, b]) => compare::order(a, b).map(|o| Value::Bool(o.is_le())),
        ("gt", [a, b]) => compare::order(a, b).map(|o| Value::Bool(o.is_gt())),
        ("ge", [a, b]) => compare::order(a, b).map(|o| Value::Bool(o.is_ge())),
        ("len", [Value::Str(s)]) => length(s.len()),
        ("len", [other]) => Err(format!("len: a value of type {} has no length", other.type_name())),
        ("print", values) => Ok(Value::Str(print(values))),
        ("println", values) => Ok(Value::Str(println(values))),
        ("printf", [Value::Str(format), values @ ..]) => printf::format(format, values).map(Value::Str),
        ("slice", [Value::Str(s), indexes @ ..]) => slice(s, indexes).map(Value::Str),
        ("slice", [other, ..]) => Err(format!("slice: a value of type {} is unsupported", other.type_name())),
        ("toUpper", [Value::Str(s)]) => Ok(Value::Str(s.chars().map(upper).collect())),
        ("toLower", [Value::Str(s)]) => Ok(Value::Str(s.chars().map(lower).collect())),
        ("contains", [Value::Str(part), Value::Str(s)]) => Ok(Value::Bool(s.contains(part.as_str()))),
        ("index", [Value::Str(part), Value::Str(s)]) => position(s.find(part.as_str())),
        ("lastIndex", [Value::Str(part), Value::Str(s)]) => position(s.rfind(part.as_str())),
        ("field", [Value::Str(by), n, Value::Str(s)]) => field(by, integer("field", n)?, s).map(Value::Str),
        ("substring", [a, b, Value::Str(s)]) => {
            substring(integer("substring", a)?, integer("substring", b)?, s).map(Value::Str)
        }
        ("html" | "js" | "call" | "urlquery", _) => Err(format!("{name} is unsupported in tags")),
        (name, arguments) => Err(misuse(name, arguments)),
    }
}

fn misuse(name: &str, arguments: &[Value<'_>]) -> String {
    let wanted = match name {
        "not" | "len" => "one value",
        "eq" => "two or more values",
        "ne" | "lt" | "le" | "gt" | "ge" => "two values",
        "printf" => "a format and values",
        "slice" => "a string and up to two positions",
        "toUpper" | "toLower" => "a string",
        "contains" | "index" | "lastIndex" => "two strings",
        "field" => "a separator, a number and a string",
        "substring" => "two numbers and a string",
        _ => "other arguments",
    };
    let given: Vec<_> = arguments.iter().map(Value::type_name).collect();
    format!("{name} requires {wanted}, got ({})", given.join(", "))
}

/// Converts one character to upper case. As in Go, a character whose upper case has several characters stays unchanged.
fn upper(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}

fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

fn integer(function: &str, value: &Value<'_>) -> Result<i64, String> {
    match value {
        Value::Int(n) => Ok(*n),
        other => Err(format!("{function} requires an integer, got {}", other.type_name())),
    }
}

fn length(n: usize) -> Outcome<'static> {
    i64::try_from(n).map(Value::Int).map_err(|_| "length exceeds 64 bits".to_owned())
}

fn position(at: Option<usize>) -> Outcome<'static> {
    at.map_or(Ok(Value::Int(-1)), length)
}

/// Joins values, with a space between two values if neither of them is a string.
fn print(values: &[Value<'_>]) -> String {
    let mut out = String::new();
    let mut after_string = true;
    for value in values {
        let is_string = matches!(value, Value::Str(_));
        if !(is_string || after_string) {
            out.push(' ');
        }
        out.push_str(&value.printed());
        after_string = is_string;
    }
    out
}

fn println(values: &[Value<'_>]) -> String {
    let words: Vec<_> = values.iter().map(Value::printed).collect();
    format!("{}\n", words.join(" "))
}

/// Returns `s[start..end]`, or an error if a position is outside the text or within a character.
fn cut(function: &str, s: &str, start: usize, end: usize) -> Result<String, String> {
    if start > end || end > s.len() {
        return Err(format!("{function}: {start} to {end} is outside a text of {} bytes", s.len()));
    }
    s.get(start..end)
        .map(str::to_owned)
        .ok_or_else(|| format!("{function}: {start} to {end} splits a character of {s:?}"))
}

fn slice(s: &str, indexes: &[Value<'_>]) -> Result<String, String> {
    if indexes.len() > 2 {
        return Err("slice: a string takes at most two indices".to_owned());
    }
    let at = |i: usize| match indexes.get(i) {
        None => Ok(None),
        Some(Value::Int(n)) => usize::try_from(*n).map(Some).map_err(|_| format!("slice: index {n} is out of range")),
        Some(other) => Err(format!("slice requires integer indices, got {}", other.type_name())),
    };
    cut("slice", s, at(0)?.unwrap_or(0), at(1)?.unwrap_or(s.len()))
}

fn field(by: &str, n: i64, s: &str) -> Result<String, String> {
    let out_of_range =
        |count: usize| format!("field: index {n} is out of range: the text has {count} pieces, and indices start at 0");
    let found = match usize::try_from(n) {
        Err(_) => None,
        // An empty separator splits the text into characters.
        Ok(i) if by.is_empty() => s.chars().nth(i).map(String::from),
        Ok(i) => s.split(by).nth(i).map(str::to_owned),
    };
    found.ok_or_else(|| out_of_range(if by.is_empty() { s.chars().count() } else { s.split(by).count() }))
}

fn substring(a: i64, b: i64, s: &str) -> Result<String, String> {
    let end = usize::try_from(b).ok();
    match (usize::try_from(a).ok(), end) {
        (None, Some(end)) => cut("substring", s, 0, end),
        (None, None) => Err(format!("substring: {a} and {b} are both negative")),
        (Some(start), Some(end)) if end <= s.len() => cut("substring", s, start, end),
        (Some(start), _) => cut("substring", s, start, s.len()),
    }
}
