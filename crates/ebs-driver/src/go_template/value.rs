use super::Data;

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value<'a> {
    /// `nil`, or no value at all.
    Nil,
    Bool(bool),
    Int(i64),
    Str(String),
    Data(&'a Data),
}

impl Value<'_> {
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Str(_) => "string",
            Self::Data(_) => "the template's data",
        }
    }

    /// Returns false for nil, false, zero and the empty string.
    pub(super) fn truth(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(b) => *b,
            Self::Int(n) => *n != 0,
            Self::Str(s) => !s.is_empty(),
            Self::Data(_) => true,
        }
    }

    pub(super) fn printed(&self) -> String {
        match self {
            Self::Nil => "<nil>".to_owned(),
            Self::Bool(b) => b.to_string(),
            Self::Int(n) => n.to_string(),
            Self::Str(s) => s.clone(),
            Self::Data(data) => format!("&{{{}}}", data.values().join(" ")),
        }
    }

    /// Formats the value as an action writes it into the text.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Nil => "<no value>".to_owned(),
            Self::Data(data) => format!("{{{}}}", data.values().join(" ")),
            other => other.printed(),
        }
    }

    /// Returns how many bytes count as processed when this value is used.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Str(s) => s.len(),
            _ => 8,
        }
    }
}
