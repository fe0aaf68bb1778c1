use std::cmp::Ordering;

use super::value::Value;

/// Returns whether the first value equals any of the others.
pub(super) fn eq(first: &Value<'_>, others: &[Value<'_>]) -> Result<bool, String> {
    if others.is_empty() {
        return Err("eq requires two or more values".to_owned());
    }
    for other in others {
        if equal(first, other)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn equal(a: &Value<'_>, b: &Value<'_>) -> Result<bool, String> {
    match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => Ok(a == b),
        (Value::Int(a), Value::Int(b)) => Ok(a == b),
        (Value::Str(a), Value::Str(b)) => Ok(a == b),
        (Value::Nil, Value::Nil) => Ok(true),
        (Value::Nil, _) | (_, Value::Nil) => Ok(false),
        (Value::Data(a), Value::Data(b)) => Ok(a == b),
        (a, b) => Err(unlike(a, b)),
    }
}

pub(super) fn order(a: &Value<'_>, b: &Value<'_>) -> Result<Ordering, String> {
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
        (Value::Str(a), Value::Str(b)) => Ok(a.cmp(b)),
        (a, b) => Err(unlike(a, b)),
    }
}

fn unlike(a: &Value<'_>, b: &Value<'_>) -> String {
    format!("compare values of types {} and {}: incompatible types", a.type_name(), b.type_name())
}
