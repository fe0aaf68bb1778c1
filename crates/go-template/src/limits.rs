//! The bounds. A tag value has at most 256 characters, so each is far beyond what a working template needs.

use super::{Result, TemplateError};

/// Bytes of a template, of what it makes, and of any string on the way.
pub(super) const TEXT: usize = 16 * 1024;

/// Nested actions and parentheses in the text.
const DEPTH: usize = 64;

/// Parts running within parts: bodies, parentheses, and templates calling templates. More than the text alone can
/// nest, little enough for any stack.
const CALLS: usize = 256;

/// Steps: one for each node evaluated and one for each byte handled.
const STEPS: usize = 1_000_000;

/// What a running template may still do.
#[derive(Debug)]
pub(super) struct Fuel(usize);

impl Fuel {
    pub(super) fn new() -> Self {
        Self(STEPS)
    }

    /// Takes one step and one for each byte handled.
    pub(super) fn spend(&mut self, bytes: usize) -> Result<()> {
        match self.0.checked_sub(bytes.saturating_add(1)) {
            Some(left) => {
                self.0 = left;
                Ok(())
            }
            None => Err(TemplateError::Limit(format!("it does not end within {STEPS} steps"))),
        }
    }
}

/// Refuses a length that no string of a template may have.
pub(super) fn check_length(bytes: usize) -> Result<()> {
    if bytes > TEXT {
        return Err(TemplateError::Limit(format!("it makes a text longer than {TEXT} bytes")));
    }
    Ok(())
}

/// Refuses a text that is nested too deep to be read.
pub(super) fn check_depth(depth: usize) -> Result<()> {
    if depth > DEPTH {
        return Err(TemplateError::Limit(format!("it is nested deeper than {DEPTH}")));
    }
    Ok(())
}

/// Refuses templates that call each other without end.
pub(super) fn check_calls(depth: usize) -> Result<()> {
    if depth > CALLS {
        return Err(TemplateError::Limit(format!("its templates call each other deeper than {CALLS}")));
    }
    Ok(())
}
