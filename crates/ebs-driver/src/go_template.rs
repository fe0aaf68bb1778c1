//! The subset of Go's `text/template` language that short values, such as tags, need. A template produces one string
//! from named strings. The text is split into tokens, parsed to a tree and evaluated.
//!
//! | of Go's language | here |
//! |---|---|
//! | `if`, `else`, `with`, `range` over integers, `break`, `continue`, `define`, `template`, `block`, variables, pipes, comments, trim marks | as in Go |
//! | `and or not eq ne lt le gt ge len print println slice` | as in Go |
//! | `toUpper toLower contains field substring index lastIndex` | as in the EBS driver's documentation |
//! | `printf` | `%s %v %q %d %t %%`, flags `-` and `0`, a width, a precision for strings |
//! | other verbs, flags, `*` and `[n]` of `printf` | [`TemplateError::Unsupported`], detected before any value is known |
//! | values that do not fit `printf`'s format | an error; Go writes `%!d(string=x)` into the text |
//! | constants | decimal integers, strings in `"` and `` ` ``, `true`, `false`, `nil` |
//! | fractions, other bases, characters in `'`, escapes of bytes (`\x41`, `\101`) | errors: no value of a template could need them |
//! | `html js call urlquery` | errors |
//!
//! Rendering always ends, because the template's size, nesting, work and output are limited (`limits`). Cutting a
//! character in two is an error, because EC2 rejects invalid text.
//!
//! (The only existing crate, `gtmpl`, lacks `break`, `continue`, ranges over integers and every limit.)

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

/// The data of a template, which is the initial value of dot: a struct of named strings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    fields: Vec<(&'static str, String)>,
}

impl Data {
    /// Creates the data. `fields` must be in the order in which Go would print them.
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

/// Why a template cannot be rendered. `line` counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    #[error("parse template, line {line}: {message}")]
    Parse { line: usize, message: String },
    /// The template is valid in Go, but uses an unsupported feature.
    #[error("parse template, line {line}: {message}")]
    Unsupported { line: usize, message: String },
    /// The template cannot be evaluated with these values.
    #[error("evaluate template, line {line}: {message}")]
    Evaluate { line: usize, message: String },
    /// The template exceeds a limit on its size, depth or running time. Templates for short values stay within these
    /// limits.
    #[error("render template: {0}")]
    Limit(String),
}

type Result<T> = std::result::Result<T, TemplateError>;

/// Renders `template` with `data`.
pub fn render(template: &str, data: &Data) -> Result<String> {
    eval::run(&read(template)?, data)
}

/// Rejects templates that cannot be rendered with any data.
pub fn check(template: &str) -> Result<()> {
    read(template).map(drop)
}

fn read(template: &str) -> Result<tree::Templates> {
    if template.len() > limits::TEXT {
        return Err(TemplateError::Limit(format!("text is longer than {} bytes", limits::TEXT)));
    }
    parser::parse(lexer::tokens(template)?)
}
