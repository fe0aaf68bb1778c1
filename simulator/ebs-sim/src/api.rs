//! The calls, replies and errors of the simulated EC2. Calls are as the client sent them: the engine validates ids and
//! numbers, as EC2 does.

mod actions;
mod elements;
mod objects;
pub(crate) mod pattern;
pub(crate) mod query;
mod table;

pub use ebs_ec2::Page;

pub use actions::*;
pub use elements::{BlockDeviceMapping, Filter, Tag, TagSpecification, TagToDelete};
pub use objects::*;

/// An EC2 error.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    /// EC2's error code, such as `InvalidVolume.NotFound`.
    pub code: String,
    pub message: String,
    /// HTTP status; 400 for most errors.
    pub status: u16,
}

impl Fault {
    /// Returns a client error (HTTP 400).
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status: 400 }
    }

    /// Returns an error with another HTTP status.
    pub fn with_status(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status }
    }
}

pub(crate) const ACCOUNT_ID: &str = "123456789012";

pub(crate) fn missing(name: &str) -> Fault {
    Fault::new("MissingParameter", format!("The request must contain the parameter {name}"))
}

fn invalid_value(name: &str, value: &str, wanted: &str) -> Fault {
    let message = format!("Value ({value}) for parameter {name} is invalid. Expected {wanted}.");
    Fault::new("InvalidParameterValue", message)
}

/// Returns the error for a parameter or value that EC2 supports and the simulator does not.
fn not_simulated(what: &str) -> Fault {
    Fault::new("UnsupportedOperation", format!("{what} is not simulated."))
}
