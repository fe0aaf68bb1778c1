//! Whether the driver can serve.
//!
//! Decision: `docs/decisions/0024-keep-probe-independent-of-ec2.md`.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::timeout;

/// The time for which a probe waits for the end of the start. A probe that is a moment too early would otherwise report
/// that the driver is not ready, and a sidecar would repeat it only a second later. Sidecars wait one second for the
/// response.
const PATIENCE: Duration = Duration::from_millis(800);

/// Whether the driver has started: false during the start, then true. Clones share the state.
///
/// Readiness does not depend on other systems: an orchestrator restarts a driver that is not ready for long, which does
/// not help in an outage.
#[derive(Debug, Clone)]
pub struct Readiness(watch::Receiver<bool>);

/// Ends the start of a driver. Its drop without a call of [`Starting::end`] leaves the driver not ready.
#[derive(Debug)]
pub struct Starting(watch::Sender<bool>);

impl Readiness {
    /// Returns the readiness of a driver that starts now.
    pub fn starting() -> (Self, Starting) {
        let (sender, receiver) = watch::channel(false);
        (Self(receiver), Starting(sender))
    }

    /// Returns the readiness of a driver that already serves.
    pub fn serving() -> Self {
        let (readiness, starting) = Self::starting();
        starting.end();
        readiness
    }

    /// Returns true when all services are available. Waits less than a second for a start that is about to end.
    pub async fn ask(&self) -> bool {
        let mut serves = self.0.clone();
        matches!(timeout(PATIENCE, serves.wait_for(|serves| *serves)).await, Ok(Ok(_)))
    }
}

impl Starting {
    /// Reports that all services are available from now on.
    pub fn end(self) {
        self.0.send_replace(true);
    }
}
