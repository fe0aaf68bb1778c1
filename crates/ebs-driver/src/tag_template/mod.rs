//! Values of tags as templates: the part of Go's `text/template` language that tag values use (`controller.md` 6.7).
//!
//! A template is one value; its data are the names of the Kubernetes objects behind a volume or snapshot. The text
//! becomes tokens (`lexer`), a tree (`parser`, `tree`) and then a string (`eval`).
//!
//! Whatever the template says, rendering ends: its length, its nesting, the work it does and the text it makes are
//! bounded, and each bound has an error of its own (`limits`). Text is UTF-8 all along: where Go would cut a
//! character in two, this is an error, because EC2 takes no broken text.
//!
//! (No crate to build on: the one there is, `gtmpl`, lacks `break`, `continue`, ranges over integers and every bound.)

mod compare;
mod eval;
mod floats;
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

/// The data of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TemplateValues {
    fields: [(&'static str, String); 3],
}

impl TemplateValues {
    /// Of a volume: `.PVCName`, `.PVCNamespace`, `.PVName`. Names that are not known are empty strings.
    pub fn volume(pvc_name: &str, pvc_namespace: &str, pv_name: &str) -> Self {
        Self {
            fields: [
                ("PVCName", pvc_name.to_owned()),
                ("PVCNamespace", pvc_namespace.to_owned()),
                ("PVName", pv_name.to_owned()),
            ],
        }
    }

    /// Of a snapshot: `.VolumeSnapshotName`, `.VolumeSnapshotNamespace`, `.VolumeSnapshotContentName`. Names that
    /// are not known are empty strings.
    pub fn snapshot(name: &str, namespace: &str, content_name: &str) -> Self {
        Self {
            fields: [
                ("VolumeSnapshotName", name.to_owned()),
                ("VolumeSnapshotNamespace", namespace.to_owned()),
                ("VolumeSnapshotContentName", content_name.to_owned()),
            ],
        }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(n, _)| *n == name).map(|(_, v)| v.as_str())
    }

    fn names(&self) -> [&'static str; 3] {
        [self.fields[0].0, self.fields[1].0, self.fields[2].0]
    }

    fn values(&self) -> [&str; 3] {
        [&self.fields[0].1, &self.fields[1].1, &self.fields[2].1]
    }
}

/// Why a template has no value. `line` counts from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TemplateError {
    /// The text is no template.
    #[error("tag template cannot be read, line {line}: {message}")]
    Parse {
        /// Where.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template cannot be evaluated with these values.
    #[error("tag template cannot be evaluated, line {line}: {message}")]
    Evaluate {
        /// Where.
        line: usize,
        /// What is wrong.
        message: String,
    },
    /// The template is larger, deeper or longer-running than any tag needs.
    #[error("tag template is beyond what a tag needs: {0}")]
    Limit(String),
}

type Result<T> = std::result::Result<T, TemplateError>;

/// The value of `template` with `values`.
///
/// # Errors
/// [`TemplateError`], when the text is no template, cannot be evaluated, or goes beyond a bound. Never panics.
pub fn render(template: &str, values: &TemplateValues) -> Result<String> {
    if template.len() > limits::TEXT {
        return Err(TemplateError::Limit(format!("longer than {} bytes", limits::TEXT)));
    }
    let tokens = lexer::tokens(template)?;
    let templates = parser::parse(tokens)?;
    eval::run(&templates, values)
}
