//! Whether the driver can serve.
//!
//! Decision: `docs/decisions/0024-keep-probe-independent-of-ec2.md`.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// A start that ends within this time is waited for: a probe that comes a moment too early would otherwise find the driver not ready, and
/// a sidecar would look again only a second later. Sidecars wait one second for the answer.
const PATIENCE: Duration = Duration::from_millis(800);

/// False while the driver is put together, true from then on. Clones are one.
///
/// Nothing outside the process counts: an orchestrator restarts a driver that is not ready for long, and that helps no outage.
#[derive(Debug, Clone)]
pub struct Readiness(watch::Receiver<bool>);

/// Ends the start of a driver. Dropped before, it leaves the driver not ready.
#[derive(Debug)]
pub struct Starting(watch::Sender<bool>);

impl Readiness {
    /// Of a driver that starts now.
    pub fn starting() -> (Self, Starting) {
        let (sender, receiver) = watch::channel(false);
        (Self(receiver), Starting(sender))
    }

    /// Of a driver that serves already.
    pub fn serving() -> Self {
        let (readiness, starting) = Self::starting();
        starting.end();
        readiness
    }

    /// True once all services are served. Waits for a start that is about to end, for less than a second.
    pub async fn ask(&self) -> bool {
        let mut serves = self.0.clone();
        matches!(timeout(PATIENCE, serves.wait_for(|serves| *serves)).await, Ok(Ok(_)))
    }
}

impl Starting {
    /// From now on all services are served.
    pub fn end(self) {
        self.0.send_replace(true);
    }
}
