//! The part of Go's `text/template` language that short values need, for programs whose users know Go's: the driver
//! reads the values of tags with it.
//!
//! A template makes one string; its data are named strings. The text becomes tokens (`lexer`), a tree (`parser`, `tree`)
//! and then a string (`eval`).
//!
//! | of Go's language | here |
//! |---|---|
//! | `if`, `else`, `with`, `range` over integers, `break`, `continue`, `define`, `template`, `block`, variables, pipes, comments, trim marks | as in Go |
//! | `and or not eq ne lt le gt ge len print println slice` | as in Go |
//! | `toUpper toLower contains field substring index lastIndex` | as the EBS driver's documentation has them |
//! | `printf` | `%s %v %q %d %t %%`, flags `-` and `0`, a width, a precision for strings |
//! | other verbs, flags, `*` and `[n]` of `printf` | [`TemplateError::Unsupported`], found before any value is known |
//! | values that do not fit `printf`'s format | an error; Go writes `%!d(string=x)` into the text |
//! | constants | decimal integers, strings in `"` and `` ` ``, `true`, `false`, `nil` |
//! | fractions, other bases, characters in `'`, escapes of bytes (`\x41`, `\101`) | errors: no value of a template could need them |
//! | `html js call urlquery` | errors |
//!
//! Whatever the template says, rendering ends: its length, its nesting, the work it does and the text it makes are
//! bounded, and each bound has an error of its own (`limits`). Text is UTF-8 all along: where Go would cut a
//! character in two, this is an error, because EC2 takes no broken text.
//!
//! (No crate to build on: the one there is, `gtmpl`, lacks `break`, `continue`, ranges over integers and every bound.)

mod compare;
mod eval;
mod functions;
mod lexer;
mod limits;
mod literals;
mod parser;
mod printf;
#[cfg(test)]
mod tests;
mod tree;
mod value;

/// The data of a template: what the dot is, a struct of named strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    fields: Vec<(&'static str, String)>,
}

impl Data {
    /// Fields in the order in which Go would print them.
    pub fn new(fields: impl IntoIterator<Item = (&'static str, String)>) -> Self {
        Self { fields: fields.into_iter().collect() }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
    }

    fn names(&self) -> Vec<&'static str> {
        self.fields.iter().map(|(name, _)| *name).collect()
    }

    fn values(&self) -> Vec<&str> {
        self.fields.iter().map(|(_, value)| value.as_str()).collect()
    }
}

/// Why a template has no value. `line` counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is no template.
    #[error("the template cannot be read, line {line}: {message}")]
    Parse { line: usize, message: String },
    /// The text is a template for Go, and uses what is left out here.
    #[error("the template cannot be read, line {line}: {message}")]
    Unsupported { line: usize, message: String },
    /// The template cannot be evaluated with these values.
    #[error("the template cannot be evaluated, line {line}: {message}")]
    Evaluate { line: usize, message: String },
    /// The template is larger, deeper or longer-running than a short value needs.
    #[error("the template is beyond its bounds: {0}")]
    Limit(String),
}

type Result<T> = std::result::Result<T, TemplateError>;

/// The value of `template` with `data`.
///
/// # Errors
/// [`TemplateError`], when the text is no template, cannot be evaluated, or goes beyond a bound. Never panics.
pub fn render(template: &str, data: &Data) -> Result<String> {
    eval::run(&read(template)?, data)
}

/// Refuses what can never be rendered, whatever the data.
///
/// # Errors
/// As [`render`], but for [`TemplateError::Evaluate`].
pub fn check(template: &str) -> Result<()> {
    read(template).map(drop)
}

fn read(template: &str) -> Result<tree::Templates> {
    if template.len() > limits::TEXT {
        return Err(TemplateError::Limit(format!("longer than {} bytes", limits::TEXT)));
    }
    parser::parse(lexer::tokens(template)?)
}
