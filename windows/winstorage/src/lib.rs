//! Storage of Windows nodes: the operations of csi-proxy and the node plugin on disks, volumes, paths, shares, targets
//! and services.
//!
//! The crate has three layers. [`Storage`] has one function per operation for all versions of the API: it checks
//! arguments, decides the steps, and protects Windows' own disks. Below it, [`host`] is the machine with one method per
//! step. Below that, on Windows, [`wmi`] turns steps into queries and calls, and `real` sends them.
//!
//! Everything except `real` compiles and is tested on any system. Only `real` contains `unsafe` code. This crate starts
//! no programs.
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
#[expect(unsafe_code, reason = "Win32 has no safe form; each block states why it is sound")]
pub mod real;
pub mod reparse;
pub mod selftest;
pub mod service;
pub mod types;
pub mod wmi;

pub use error::{StorageError, WayError};
pub use service::{Policy, Storage};
