//! The end of all operations at the end of the process. Who calls it, and what is said of those that
//! are left, is in `supervise.rs` of the binary.

use std::time::Duration;

use super::{Key, Operations};

/// How often a shutdown looks for operations whose last waiter has left.
const DRAIN_GLANCE: Duration = Duration::from_millis(100);

impl Operations {
    /// Refuses new operations from now on and waits until the running ones have ended, at most for `limit`; those that
    /// nobody waits for are asked to. Returns the keys of those that have not: what a shutdown leaves behind.
    pub async fn drain(&self, limit: Duration) -> Vec<Key> {
        self.slots().close();
        self.tasks.close();
        let ended = async {
            loop {
                let _asked_to_end = self.slots().supersede_unawaited();
                if tokio::time::timeout(DRAIN_GLANCE, self.tasks.wait()).await.is_ok() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limit, ended).await.is_ok() { Vec::new() } else { self.running() }
    }
}
