//! Storage of Windows nodes: what csi-proxy and the node plugin do with disks, volumes, paths, shares, targets and services.
//!
//! Three layers. [`Storage`] has a function for every operation, whatever the version of the API that asked: it checks arguments,
//! decides what has to be done, and keeps Windows' own disks out of reach. Below it, [`host`] is the machine, a step a method.
//! Below that, on Windows, [`wmi`] turns steps into queries and calls, and `real` sends them.
//!
//! Everything but `real` compiles and is tested on any system; `unsafe` is in `real` alone. Nothing here starts a program.
#![warn(missing_docs)]
#![deny(unsafe_code)]

pub mod directory;
mod error;
#[cfg(any(test, feature = "fake"))]
pub mod fake;
pub mod host;
pub mod locate;
pub mod page83;
pub mod path;
#[cfg(windows)]
#[expect(unsafe_code, reason = "Win32 has no other form; each block says why it is sound")]
pub mod real;
pub mod reparse;
pub mod selftest;
pub mod service;
pub mod types;
pub mod wmi;

pub use error::{Empty, StorageError, WayError};
pub use service::{Policy, Storage};
