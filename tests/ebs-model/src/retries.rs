//! How long the orchestrator's clients wait for a response, and when they retry. Sidecars disconnect after their
//! timeout, so a driver that needs a longer wait, and restarts it with each attempt, would never finish.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::rng::Rng;
use crate::sidecar::Sidecar;
use crate::target::Target;

/// The pause after the first failure. Each further failure doubles it.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How long the client of a call waits for the response.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    Within(Duration),
    /// The timeout of the sidecar that sends calls of this kind. The sidecar also pauses between its calls.
    Sidecar,
}

#[derive(Debug)]
pub(crate) struct SidecarRetries {
    time_outs: [Duration; Sidecar::ALL.len()],
    longest_pause: Duration,
    pauses: BTreeMap<String, Pause>,
}

#[derive(Debug, Clone, Copy)]
struct Pause {
    failures: u32,
    until: Instant,
}

impl SidecarRetries {
    /// Draws the timeouts: mostly the sidecars' defaults, sometimes shorter or longer.
    pub(crate) fn draw(rng: &mut Rng) -> Self {
        let seconds = Duration::from_secs;
        let time_outs = match rng.below(10) {
            0..=5 => [10, 15, 10, 60],
            6..=7 => [10; 4],
            8 => [60; 4],
            _ => [360; 4],
        }
        .map(seconds);
        let longest_pause = seconds(rng.between(8, 60));
        Self { time_outs, longest_pause, pauses: BTreeMap::new() }
    }

    pub(crate) fn time_out(&self, target: &Target) -> Duration {
        self.time_outs[target.sidecar().place()]
    }

    /// Returns whether the sidecar's pause after a failure of such a call is over.
    pub(crate) fn is_over(&self, target: &Target) -> bool {
        self.pauses.get(&request_key(target)).is_none_or(|pause| Instant::now() >= pause.until)
    }

    pub(crate) fn record_result(&mut self, target: &Target, succeeded: bool) {
        let request_key = request_key(target);
        if succeeded {
            self.pauses.remove(&request_key);
            return;
        }
        let failures = self.pauses.get(&request_key).map_or(0, |pause| pause.failures);
        let pause = (FIRST_PAUSE * 2_u32.pow(failures.min(10))).min(self.longest_pause);
        self.pauses.insert(request_key, Pause { failures: failures + 1, until: Instant::now() + pause });
    }

    pub(crate) fn forget(&mut self) {
        self.pauses.clear();
    }
}

/// Returns a key for the request that the sidecar would repeat.
fn request_key(target: &Target) -> String {
    match target {
        Target::Create { claim, .. } => format!("create {claim}"),
        Target::Delete { id, .. } => format!("delete {id}"),
        Target::Publish { id, node, .. } => format!("publish {id} {node}"),
        Target::Unpublish { id, node } => format!("unpublish {id} {node}"),
        Target::Expand { id, .. } => format!("expand {id}"),
        Target::Modify { id, .. } => format!("modify {id}"),
        Target::Snapshot { snap, .. } => format!("snapshot {snap}"),
        Target::DropSnapshot { id, .. } => format!("drop {id}"),
    }
}
