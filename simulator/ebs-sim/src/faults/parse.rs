//! Parses rules from JSON. Errors name the rule and the field.

use serde_json::Value;

use super::Rule;

/// Parses one rule or a list of rules.
pub fn rules_from_json(json: &[u8]) -> Result<Vec<Rule>, String> {
    let value: Value = serde_json::from_slice(json).map_err(|e| format!("not JSON: {e}"))?;
    let values = match value {
        Value::Array(values) => values,
        one @ Value::Object(_) => vec![one],
        _ => return Err("neither a rule nor a list of rules".to_owned()),
    };
    values.into_iter().enumerate().map(|(at, value)| rule(at, value)).collect()
}

/// Parses one rule of a list. `at` is its index, from 0.
fn rule(at: usize, value: Value) -> Result<Rule, String> {
    let name = value.get("name").and_then(Value::as_str).map(str::to_owned);
    let rule = Rule::deserialize_checked(value);
    rule.map_err(|why| format!("{}: {why}", place(at, name.as_deref())))
}

/// Returns a name for error messages, such as `rule 2 (slow attach)`.
fn place(at: usize, name: Option<&str>) -> String {
    let name = name.map(|name| format!(" ({name})")).unwrap_or_default();
    format!("rule {}{name}", at + 1)
}

impl Rule {
    fn deserialize_checked(value: Value) -> Result<Self, String> {
        let effect = value.get("effect").cloned();
        let rule: Self = match serde_json::from_value(value) {
            Ok(rule) => rule,
            Err(error) => {
                // The error for a rule does not name a field inside the effect: parse the effect alone to get that
                // name.
                let inside = effect.and_then(|effect| serde_json::from_value::<super::Effect>(effect).err());
                return Err(inside.map_or_else(|| error.to_string(), |inside| format!("effect: {inside}")));
            }
        };
        rule.check().map_err(|bad| bad.to_string())?;
        Ok(rule)
    }
}
