//! Conditions: an operator, a key, and the values in the policy.

use super::check::{Check, KeyValues};
use super::key::Key;
use super::pattern::{Lookup, Pattern};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equals {
        negated: bool,
        ignore_case: bool,
    },
    Like {
        negated: bool,
    },
    Bool,
    /// Tests whether the key is absent.
    Null,
}

/// How a condition treats a key with several values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quantifier {
    /// `ForAnyValue:`
    Any,
    /// `ForAllValues:`
    All,
}

/// One condition of a statement: an operator and one of its keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Condition {
    quantifier: Option<Quantifier>,
    operator: Operator,
    if_exists: bool,
    key: Key,
    values: Vec<Pattern>,
    shown: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Met {
    Yes,
    No,
    /// The resource does not exist. EC2 reports this without checking its tags.
    NoSuchResource,
}

impl Condition {
    pub(super) fn parse(operator: &str, key: &str, values: &[String]) -> Result<Self, String> {
        let shown = format!("{operator} {key} = {}", values.join(" or "));
        let (quantifier, name) = match operator.split_once(':') {
            None => (None, operator),
            Some(("ForAnyValue", name)) => (Some(Quantifier::Any), name),
            Some(("ForAllValues", name)) => (Some(Quantifier::All), name),
            Some((other, _)) => return Err(format!("invalid quantifier {other:?}; use ForAnyValue or ForAllValues")),
        };
        let (name, if_exists) = name.strip_suffix("IfExists").map_or((name, false), |name| (name, true));
        let operator = operator_named(name)?;
        let key_text = key;
        let key = Key::parse(key)?;
        if quantifier.is_none() && key == Key::TagKeys && operator != Operator::Null {
            return Err(format!("{key_text} has several values; use ForAnyValue:{name} or ForAllValues:{name}"));
        }
        if matches!(operator, Operator::Bool | Operator::Null)
            && values.iter().any(|value| !["true", "false"].contains(&value.to_ascii_lowercase().as_str()))
        {
            return Err(format!("{name} requires \"true\" or \"false\", not {}", values.join(", ")));
        }
        if operator == Operator::Null && (if_exists || quantifier.is_some()) {
            return Err("Null supports neither IfExists nor a quantifier".to_owned());
        }
        let wildcards = matches!(operator, Operator::Like { .. });
        let values = values.iter().map(|value| Pattern::parse(value, wildcards)).collect::<Result<_, _>>()?;
        Ok(Self { quantifier, operator, if_exists, key, values, shown })
    }

    pub(super) fn met(&self, check: &Check, lookup: Lookup<'_>) -> Met {
        let found = check.find(&self.key, lookup);
        if found == KeyValues::NoSuchResource {
            return Met::NoSuchResource;
        }
        let given: Vec<&str> = match &found {
            KeyValues::Values(values) => values.iter().map(String::as_str).collect(),
            KeyValues::Absent | KeyValues::NoSuchResource => Vec::new(),
        };
        if self.operator == Operator::Null {
            let absent = if given.is_empty() { "true" } else { "false" };
            return met_if(self.fits_one(absent, true, lookup));
        }
        let negated =
            matches!(self.operator, Operator::Equals { negated: true, .. } | Operator::Like { negated: true });
        if given.is_empty() {
            let holds =
                self.if_exists || self.quantifier == Some(Quantifier::All) || (self.quantifier.is_none() && negated);
            return met_if(Some(holds));
        }
        let ignore_case = matches!(self.operator, Operator::Equals { ignore_case: true, .. } | Operator::Bool);
        let mut answers = given.into_iter().map(|value| Some(self.fits_one(value, ignore_case, lookup)? != negated));
        match self.quantifier {
            Some(Quantifier::All) => met_if(answers.all(|answer| answer == Some(true)).into()),
            Some(Quantifier::Any) | None => met_if(answers.any(|answer| answer == Some(true)).into()),
        }
    }

    /// Returns whether one of the values in the policy matches. Returns `None` when a variable in one of them has no
    /// value: then the condition does not hold, even if it is negated.
    fn fits_one(&self, text: &str, ignore_case: bool, lookup: Lookup<'_>) -> Option<bool> {
        let mut fits = false;
        for value in &self.values {
            fits |= value.fits(text, ignore_case, lookup)?;
        }
        Some(fits)
    }

    pub(super) fn explain(&self, check: &Check, lookup: Lookup<'_>) -> String {
        let has = match check.find(&self.key, lookup) {
            KeyValues::Values(values) if values.is_empty() => "nothing".to_owned(),
            KeyValues::Values(values) => values.join(", "),
            KeyValues::Absent => "nothing".to_owned(),
            KeyValues::NoSuchResource => "a resource that does not exist".to_owned(),
        };
        format!("{} (the request has {has})", self.shown)
    }
}

fn met_if(answer: Option<bool>) -> Met {
    if answer == Some(true) { Met::Yes } else { Met::No }
}

fn operator_named(name: &str) -> Result<Operator, String> {
    Ok(match name {
        "StringEquals" => Operator::Equals { negated: false, ignore_case: false },
        "StringNotEquals" => Operator::Equals { negated: true, ignore_case: false },
        "StringEqualsIgnoreCase" => Operator::Equals { negated: false, ignore_case: true },
        "StringNotEqualsIgnoreCase" => Operator::Equals { negated: true, ignore_case: true },
        "StringLike" => Operator::Like { negated: false },
        "StringNotLike" => Operator::Like { negated: true },
        "Bool" => Operator::Bool,
        "Null" => Operator::Null,
        other => {
            return Err(format!(
                "unsupported condition operator {other:?}; use StringEquals, StringNotEquals, StringEqualsIgnoreCase, StringNotEqualsIgnoreCase, StringLike, StringNotLike, Bool or Null"
            ));
        }
    })
}
