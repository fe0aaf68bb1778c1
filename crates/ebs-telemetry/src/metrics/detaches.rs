//! Detachments that take long, read from whoever waits for them when the page is asked for.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::exposition::{Family, Sample};
use super::store::{Histograms, Numbers};
use super::table;

/// What is younger than this is not worth a series.
const WORTH_TELLING: Duration = Duration::from_secs(60);

/// A detachment that somebody waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDetach {
    /// The volume's id.
    pub volume_id: String,
    /// The instance's id.
    pub instance_id: String,
    /// EC2's last word on the attachment: `detaching`, `busy` …
    pub attachment_state: String,
    /// Since when it is waited for.
    pub since: Instant,
}

/// Knows the detachments that are waited for; must not block.
pub trait PendingDetaches: std::fmt::Debug + Send + Sync + 'static {
    /// All of them; what has ended is not among them.
    fn pending(&self) -> Vec<PendingDetach>;
}

/// Shows them, and how often and how long it was asked.
#[derive(Debug)]
pub(super) struct DetachCollector {
    source: Arc<dyn PendingDetaches>,
    scrapes: Numbers,
    seconds: Histograms,
}

impl DetachCollector {
    pub(super) fn new(source: Arc<dyn PendingDetaches>) -> Self {
        let scrapes = Numbers::new(&table::EC2_COLLECTOR_SCRAPES);
        Self { source, scrapes, seconds: Histograms::new(&table::EC2_COLLECTOR_SECONDS) }
    }

    pub(super) fn families(&self) -> [Family; 4] {
        let began = Instant::now();
        let pending = self.source.pending();
        let long = || pending.iter().filter(|detach| detach.since.elapsed() > WORTH_TELLING);
        let sample = |detach: &PendingDetach| {
            let PendingDetach { volume_id, instance_id, attachment_state, since } = detach;
            Sample::number(&[attachment_state, instance_id, volume_id], since.elapsed().as_secs_f64())
        };
        let seconds = Family { row: &table::DETACH_PENDING, samples: long().map(sample).collect() };
        let age = Family { row: &table::DETACH_AGE, samples: long().map(sample).collect() };
        self.scrapes.add(&[], 1.0);
        self.seconds.observe(&[], began.elapsed().as_secs_f64());
        [seconds, age, self.scrapes.family(), self.seconds.family()]
    }
}
