//! csi-proxy gives CSI drivers in containers access to the storage of their Windows node.
//!
//! ```text
//! pipes ─ connection (preface in time, lenient authority) ─ tonic ─ serve: method, pace, record, count
//!                                                                └ api: request → arguments, answer → response
//!                                                                   └ winstorage: checks, decisions, Windows
//! ```
//!
//! Each pair of group and version has a named pipe and a gRPC service. All of them share one [`winstorage::Storage`].
//! Everything except `windows` runs, and is tested, on any system.

mod api;
mod audit;
mod connection;
mod figures;
mod flags;
mod groups;
mod log_file_flags;
mod log_files;
mod memory;
mod metrics;
mod pace;
mod peer;
mod pool;
mod program;
mod proxy;
mod sddl;
mod selftest;
mod serve;
mod status;
#[cfg(windows)]
mod windows;

pub use audit::{AuditSink, IntoFile, IntoLog};
pub use connection::PREFACE_LIMIT;
pub use figures::Figures;
pub use flags::{AuditTo, BadCommandLine, Command, DEFAULT_PIPE_SECURITY, PathChecks, Selftest, Settings, read};
pub use groups::{ApiGroups, BadApiGroups};
pub use memory::MemoryPipes;
pub use peer::Peer;
pub use program::{MakeHost, main};
pub use proxy::{DRAIN_LIMIT, ListenError, Parts, Proxy, ProxyError, ServeError, Transport};
pub use sddl::SddlError;
pub use serve::Bare;
