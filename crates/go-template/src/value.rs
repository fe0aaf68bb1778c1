//! What a pipeline can yield.

use super::Data;

/// A value while a template runs.
#[derive(Debug, Clone)]
pub(super) enum Value<'a> {
    /// `nil`, or no value at all.
    Nil,
    Bool(bool),
    Int(i64),
    Str(String),
    /// The data of the template.
    Data(&'a Data),
}

impl Value<'_> {
    /// Go's name of the type.
    pub(super) fn type_name(&self) -> &'static str {
        match self {
            Self::Nil => "nil",
            Self::Bool(_) => "bool",
            Self::Int(_) => "int",
            Self::Str(_) => "string",
            Self::Data(_) => "the template's data",
        }
    }

    /// False for nothing, false, zero and the empty string.
    pub(super) fn truth(&self) -> bool {
        match self {
            Self::Nil => false,
            Self::Bool(b) => *b,
            Self::Int(n) => *n != 0,
            Self::Str(s) => !s.is_empty(),
            Self::Data(_) => true,
        }
    }

    /// As `print` writes it.
    pub(super) fn printed(&self) -> String {
        match self {
            Self::Nil => "<nil>".to_owned(),
            Self::Bool(b) => b.to_string(),
            Self::Int(n) => n.to_string(),
            Self::Str(s) => s.clone(),
            Self::Data(data) => format!("&{{{}}}", data.values().join(" ")),
        }
    }

    /// As an action writes it into the output.
    pub(super) fn written(&self) -> String {
        match self {
            Self::Nil => "<no value>".to_owned(),
            Self::Data(data) => format!("{{{}}}", data.values().join(" ")),
            other => other.printed(),
        }
    }

    /// Bytes that handling this value costs.
    pub(super) fn cost(&self) -> usize {
        match self {
            Self::Str(s) => s.len(),
            _ => 8,
        }
    }
}
