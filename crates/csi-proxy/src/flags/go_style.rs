//! Command lines as Go's programs take them: one dash or two, `-name=value` or `-name value`, switches alone or with `=false`.

use std::collections::BTreeMap;

/// What may stand behind a flag's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Alone it is true; a value stands behind `=`.
    Switch,
    /// Always followed by a value.
    Value,
}

/// A command line that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommandLine {
    /// A flag that nobody knows.
    #[error("flag provided but not defined: -{0}")]
    Unknown(String),
    /// Nothing stands behind a flag that wants a value.
    #[error("flag needs an argument: -{0}")]
    NoValue(String),
    /// The value is not one of those that the flag takes.
    #[error("invalid value {value:?} for flag -{flag}: {reason}")]
    Value {
        /// The flag's name.
        flag: String,
        /// What stood behind it.
        value: String,
        /// What it takes.
        reason: String,
    },
    /// Something that is no flag.
    #[error("unexpected argument {0:?}: flags only")]
    Argument(String),
}

/// What was given, by the flag's name, in order.
#[derive(Debug, Default)]
pub(super) struct Given(BTreeMap<String, Vec<String>>);

impl Given {
    /// Reads a command line without the program's name.
    pub(super) fn read(
        arguments: impl IntoIterator<Item = String>,
        kind: impl Fn(&str) -> Option<Kind>,
    ) -> Result<Self, BadCommandLine> {
        let mut given = Self::default();
        let mut arguments = arguments.into_iter();
        while let Some(argument) = arguments.next() {
            let Some(flag) = argument.strip_prefix("--").or_else(|| argument.strip_prefix('-')) else {
                return Err(BadCommandLine::Argument(argument));
            };
            let (name, value) = match flag.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (flag, None),
            };
            let value = match (kind(name), value) {
                (None, _) => return Err(BadCommandLine::Unknown(name.to_owned())),
                (Some(_), Some(value)) => value,
                (Some(Kind::Switch), None) => "true".to_owned(),
                (Some(Kind::Value), None) => {
                    arguments.next().ok_or_else(|| BadCommandLine::NoValue(name.to_owned()))?
                }
            };
            given.0.entry(name.to_owned()).or_default().push(value);
        }
        Ok(given)
    }

    /// The last value, or the default.
    pub(super) fn text(&self, flag: &str, default: &str) -> String {
        self.0.get(flag).and_then(|values| values.last()).map_or(default, String::as_str).to_owned()
    }

    /// The last value, unless it is empty.
    pub(super) fn filled(&self, flag: &str) -> Option<String> {
        Some(self.text(flag, "")).filter(|text| !text.is_empty())
    }

    /// All values.
    pub(super) fn all(&self, flag: &str) -> &[String] {
        self.0.get(flag).map_or(&[], Vec::as_slice)
    }

    /// A switch, in the spellings that Go takes.
    pub(super) fn switch(&self, flag: &str, default: bool) -> Result<bool, BadCommandLine> {
        match self.text(flag, "").as_str() {
            "" => Ok(default),
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(true),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(false),
            other => Err(bad(flag, other, "true or false is expected")),
        }
    }

    /// A number.
    pub(super) fn number<N: std::str::FromStr>(&self, flag: &str, default: N) -> Result<N, BadCommandLine> {
        match self.text(flag, "").as_str() {
            "" => Ok(default),
            text => text.parse().map_err(|_| bad(flag, text, "a number is expected")),
        }
    }
}

/// A value that a flag does not take.
pub(super) fn bad(flag: &str, value: &str, reason: &str) -> BadCommandLine {
    BadCommandLine::Value { flag: flag.to_owned(), value: value.to_owned(), reason: reason.to_owned() }
}
