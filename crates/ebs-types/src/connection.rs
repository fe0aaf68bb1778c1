//! Which connection a request came over.

use std::sync::atomic::{AtomicU64, Ordering};

/// A connection of a client. No two connections of one process have the same.
///
/// A sidecar keeps its connection to the driver open for as long as it runs, and ends when it loses its lease. So while
/// requests come over one connection, no other driver process is asked in their stead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ConnectionId(u64);

impl ConnectionId {
    /// Another one than all before.
    pub fn unique() -> Self {
        static LAST: AtomicU64 = AtomicU64::new(0);
        Self(LAST.fetch_add(1, Ordering::Relaxed))
    }
}
