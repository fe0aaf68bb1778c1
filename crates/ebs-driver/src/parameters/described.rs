//! What the documentation says of a parameter. It stands in the tables that the parsers read, so that no key is
//! understood and not documented, and none documented and not understood.

/// A key of a class, and what `docs/` says of it, in Markdown. `controller/tests/documents.rs` writes the pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Described {
    /// As the documentation spells it; it is understood in any case.
    pub key: &'static str,
    /// What its value may be.
    pub values: &'static str,
    /// What counts without it; empty: nothing.
    pub default: &'static str,
    /// What it does.
    pub effect: &'static str,
    /// With what it does not go together; empty: with everything.
    pub conflicts: &'static str,
}

impl Described {
    pub(super) const fn new(key: &'static str, values: &'static str, effect: &'static str) -> Self {
        Self { key, values, default: "", effect, conflicts: "" }
    }

    /// What counts without it.
    pub(super) const fn or(self, default: &'static str) -> Self {
        Self { default, ..self }
    }

    /// With what it does not go together.
    pub(super) const fn not(self, conflicts: &'static str) -> Self {
        Self { conflicts, ..self }
    }

    /// True for this key, given in lower case.
    pub(super) fn is(&self, lower: &str) -> bool {
        self.key.eq_ignore_ascii_case(lower)
    }
}
