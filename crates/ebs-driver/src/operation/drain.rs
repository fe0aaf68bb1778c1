//! Ends all operations when the process ends.

use std::time::Duration;

use super::{Key, Operations};
use crate::timeouts;

impl Operations {
    /// Refuses new operations from now on, and asks operations without a waiting caller to end. Waits at most `limit`
    /// until the running operations have ended. Returns the keys of the operations that still run.
    pub async fn drain(&self, limit: Duration) -> Vec<Key> {
        self.slots().is_closing = true;
        self.tasks.close();
        let ended = async {
            loop {
                let _asked_to_end = self.slots().supersede_unawaited();
                if tokio::time::timeout(timeouts::DRAIN_INTERVAL, self.tasks.wait()).await.is_ok() {
                    return;
                }
            }
        };
        if tokio::time::timeout(limit, ended).await.is_ok() { Vec::new() } else { self.running() }
    }
}
