//! The closed vocabulary of the simulated EC2: what can be called, what is answered, what can go wrong.
//!
//! The wire layer decodes requests into [`Call`] and encodes [`Reply`]; the port adapter does the same for Rust
//! callers. Nothing is checked here: ids are whatever text the client sent, numbers are as wide as the wire allows,
//! and the engine is the judge, as EC2 is.

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

/// An error answer of EC2.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {message}")]
pub struct Fault {
    /// EC2's code, `InvalidVolume.NotFound`.
    pub code: String,
    pub message: String,
    /// HTTP status, 400 for most.
    pub status: u16,
}

impl Fault {
    /// A client error (HTTP 400).
    pub fn new(code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status: 400 }
    }

    /// An error with another HTTP status.
    pub fn with_status(status: u16, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { code: code.into(), message: message.into(), status }
    }
}

/// The one account there is.
pub(crate) const ACCOUNT_ID: &str = "123456789012";

/// A parameter that must be there.
pub(crate) fn missing(name: &str) -> Fault {
    Fault::new("MissingParameter", format!("The request must contain the parameter {name}"))
}

/// A parameter whose value cannot be what it should.
fn invalid_value(name: &str, value: &str, wanted: &str) -> Fault {
    let message = format!("Value ({value}) for parameter {name} is invalid. Expected {wanted}.");
    Fault::new("InvalidParameterValue", message)
}

/// A parameter, or a value of one, that EC2 has and the simulator has not.
fn not_simulated(what: &str) -> Fault {
    Fault::new("UnsupportedOperation", format!("{what} is not simulated."))
}
