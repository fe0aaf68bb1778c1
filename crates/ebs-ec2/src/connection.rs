//! Identifies the connection over which a request arrived.

use std::sync::atomic::{AtomicU64, Ordering};

/// Identifies a client's connection. Two connections of one process never have the same id.
///
/// A sidecar keeps its connection to the driver open while it runs, and exits when it loses its lease. So while
/// requests arrive over one connection, that sidecar sends none to another driver process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Returns an id that this process has not returned before.
    pub fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}
