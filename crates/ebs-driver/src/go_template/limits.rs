//! The limits of templates. They far exceed the needs of a tag's value, which has at most 256 characters.

use super::{Result, TemplateError};

/// Maximum size in bytes of a template, of its output, and of any intermediate string.
pub(super) const TEXT: usize = 16 * 1024;

const DEPTH: usize = 64;

/// Maximum depth of evaluation: larger than the maximum nesting of a template's text, and small enough for any stack.
const CALLS: usize = 256;

/// Maximum number of steps: one for each evaluated node and one for each processed byte.
const STEPS: usize = 1_000_000;

#[derive(Debug)]
pub(super) struct Fuel(usize);

impl Fuel {
    pub(super) fn new() -> Self {
        Self(STEPS)
    }

    /// Uses one step, and one more for each processed byte.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.0.checked_sub(bytes.saturating_add(1)) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(TemplateError::Limit(format!("evaluation takes more than {STEPS} steps"))),
        }
    }
}

pub(super) fn check_length(bytes: usize) -> Result<()> {
    if bytes > TEXT { Err(TemplateError::Limit(format!("result is longer than {TEXT} bytes"))) } else { Ok(()) }
}

pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth > DEPTH { Err(TemplateError::Limit(format!("nesting is deeper than {DEPTH}"))) } else { Ok(()) }
}

/// Rejects templates that call each other without end.
pub(super) fn check_calls(depth: usize) -> Result<()> {
    if depth > CALLS {
        return Err(TemplateError::Limit(format!("template calls are nested deeper than {CALLS}")));
    }
    Ok(())
}
