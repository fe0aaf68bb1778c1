//! How long the orchestrator's clients wait for an answer, and when they ask again.
//!
//! Sidecars leave when their time-out has passed and come back after a pause that doubles. A driver whose attempts each
//! begin a wait anew that is longer than that never comes to an end, so every wish must be
//! fulfilled under such clients too, not only under patient ones.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use crate::calls::Target;
use crate::rng::Rng;
use crate::sidecar::Sidecar;

/// The first pause after a failure; it doubles with each further one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// How long a call waits for its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Deadline {
    Within(Duration),
    /// As the sidecar that makes such calls does, which also pauses between them.
    Sidecar,
}

/// The sidecars' time-outs, and when each may ask again.
#[derive(Debug)]
pub(crate) struct SidecarRetries {
    /// By sidecar.
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
    /// Mostly as the sidecars are by default; now and then shorter or longer.
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

    /// How long the sidecar behind such a call waits.
    pub(crate) fn time_out(&self, target: &Target) -> Duration {
        self.time_outs[Sidecar::behind(target).place()]
    }

    /// False while a sidecar pauses after a failure of such a call.
    pub(crate) fn is_over(&self, target: &Target) -> bool {
        self.pauses.get(&request_key(target)).is_none_or(|pause| Instant::now() >= pause.until)
    }

    /// A call has been answered, or nobody waited for its answer any more.
    pub(crate) fn note(&mut self, target: &Target, succeeded: bool) {
        let request_key = request_key(target);
        if succeeded {
            self.pauses.remove(&request_key);
            return;
        }
        let failures = self.pauses.get(&request_key).map_or(0, |pause| pause.failures);
        let pause = (FIRST_PAUSE * 2_u32.pow(failures.min(10))).min(self.longest_pause);
        self.pauses.insert(request_key, Pause { failures: failures + 1, until: Instant::now() + pause });
    }

    /// Every sidecar begins afresh.
    pub(crate) fn forget(&mut self) {
        self.pauses.clear();
    }
}

/// What a sidecar pauses for: one request that it makes again and again.
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
