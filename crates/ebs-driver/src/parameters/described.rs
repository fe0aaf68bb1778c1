//! The documentation of parameters. It is in the tables that the parsers read, so that every key is both supported and
//! documented.

/// A key of a class and its documentation in Markdown. `controller/tests/documents.rs` writes the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// The key in the spelling of the documentation. The parser accepts any case.
    pub key: &'static str,
    /// The valid values.
    pub values: &'static str,
    /// The default, or an empty string when there is no default.
    pub default: &'static str,
    /// The effect of the parameter.
    pub effect: &'static str,
    /// The conflicting parameters or options, or an empty string when nothing conflicts.
    pub conflicts: &'static str,
}

impl Described {
    pub(super) const fn new(key: &'static str, values: &'static str, effect: &'static str) -> Self {
        Self { key, values, default: "", effect, conflicts: "" }
    }

    /// Sets the default.
    pub(super) const fn with_default(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// Sets the conflicts.
    pub(super) const fn with_conflicts(self, conflicts: &'static str) -> Self {
        Self { conflicts, ..self }
    }

    /// Returns true for this key in lower case.
    pub(super) fn has_key(&self, lower: &str) -> bool {
        self.key.eq_ignore_ascii_case(lower)
    }
}
