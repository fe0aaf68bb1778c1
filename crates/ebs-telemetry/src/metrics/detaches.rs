//! Metrics of slow detachments, which are read at each scrape.

use std::time::Duration;

use component_base::metrics::{Family, Sample, Series};
use tokio::time::Instant;

use super::{Source, table};

/// A detachment gets a series once it has been pending for this long.
const WORTH_TELLING: Duration = Duration::from_secs(60);

/// A pending detachment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingDetach {
    pub volume_id: String,
    pub instance_id: String,
    /// The attachment state that EC2 listed last, such as `detaching` or `busy`.
    pub attachment_state: String,
    /// When the driver began to wait.
    pub since: Instant,
}

/// Collects the metrics of pending detachments, and the number and duration of this collector's queries.
pub(super) struct DetachCollector {
    pub(super) source: Source<PendingDetach>,
    scrapes: Series,
    seconds: Series,
}

impl DetachCollector {
    pub(super) fn new() -> Self {
        let scrapes = Series::new(&table::EC2_COLLECTOR_SCRAPES);
        Self { source: Source::new(), scrapes, seconds: Series::new(&table::EC2_COLLECTOR_SECONDS) }
    }

    pub(super) fn families(&self) -> Vec<Family> {
        let Some(source) = self.source.get() else { return Vec::new() };
        let began = Instant::now();
        let pending = source();
        let long = || pending.iter().filter(|detach| detach.since.elapsed() > WORTH_TELLING);
        let sample = |detach: &PendingDetach| {
            let PendingDetach { volume_id, instance_id, attachment_state, since } = detach;
            Sample::number(&[attachment_state, instance_id, volume_id], since.elapsed().as_secs_f64())
        };
        let seconds = Family { desc: &table::DETACH_PENDING, samples: long().map(sample).collect() };
        let age = Family { desc: &table::DETACH_AGE, samples: long().map(sample).collect() };
        self.scrapes.add(&[], 1.0);
        self.seconds.observe(&[], began.elapsed().as_secs_f64());
        vec![seconds, age, self.scrapes.family(), self.seconds.family()]
    }
}
