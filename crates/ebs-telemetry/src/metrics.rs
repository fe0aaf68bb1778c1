//! The driver's metrics, and the page that shows them.

mod detaches;
mod disks;
mod ec2_calls;
mod health;
mod operations;
mod panics;
mod table;
mod unhealthy;

use std::sync::OnceLock;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use component_base::metrics::{Family, Series, page};

pub use detaches::PendingDetach;
pub use disks::{DiskExceeded, DiskReport, DiskStatistics, DiskTransfers, Disks};
pub use ec2_calls::CallEnd;
pub use health::HealthFailure;
pub use panics::count_panics;
pub use unhealthy::{NotGrownVolume, UnhealthyVolume};

use detaches::DetachCollector;
use disks::DiskCollector;
use ec2_calls::Ec2Calls;
use health::HealthChecks;

/// A function that the driver sets and that returns the current values at each scrape. It must not block.
type Source<T> = OnceLock<Box<dyn Fn() -> Vec<T> + Send + Sync>>;

/// All metrics that the process counts.
pub struct Metrics {
    build: Series,
    /// The number of panics. It needs no lock, because the panicking thread may hold one.
    panics: AtomicU64,
    rpcs: Series,
    rpc_seconds: Series,
    certificate: Series,
    spare_calls: Series,
    ended_by_time: Series,
    ec2_calls: Ec2Calls,
    health_checks: Option<HealthChecks>,
    detaches: DetachCollector,
    unhealthy: Source<UnhealthyVolume>,
    not_grown: Source<NotGrownVolume>,
    operations: Source<(&'static str, Duration)>,
    disks: DiskCollector,
}

/// What the page contains in addition to the metrics that every driver has.
#[derive(Debug, Clone, Default)]
pub struct MetricsConfig {
    pub version: &'static str,
    /// The commit of the build. Empty if unknown.
    pub commit: &'static str,
    /// Whether to show the values also under the names of the in-tree cloud provider.
    pub with_deprecated: bool,
    /// EC2 actions whose duration series exist from the start, at zero.
    pub expected_actions: Vec<&'static str>,
    /// Whether the driver checks the health of EC2.
    pub checks_health: bool,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(MetricsConfig::default())
    }
}

impl Metrics {
    /// Creates the metrics with all counts at zero.
    pub fn new(config: MetricsConfig) -> Self {
        let build = Series::new(&table::BUILD_INFO);
        build.set(&[config.commit, config.version], 1.0);
        Self {
            build,
            panics: AtomicU64::default(),
            rpcs: Series::new(&table::RPCS),
            rpc_seconds: Series::new(&table::RPC_SECONDS),
            certificate: Series::new(&table::CERTIFICATE),
            spare_calls: Series::new(&table::SPARE_CALLS),
            ended_by_time: Series::new(&table::ENDED_BY_TIME),
            ec2_calls: Ec2Calls::new(&config.expected_actions, config.with_deprecated),
            health_checks: config.checks_health.then(HealthChecks::new),
            detaches: DetachCollector::new(),
            unhealthy: Source::new(),
            not_grown: Source::new(),
            operations: Source::new(),
            disks: DiskCollector::new(),
        }
    }

    /// Sets the function that returns the pending detachments. Further calls have no effect.
    pub fn set_detaches(&self, source: impl Fn() -> Vec<PendingDetach> + Send + Sync + 'static) {
        self.detaches.source.get_or_init(|| Box::new(source));
    }

    /// Sets the functions that return this node's unhealthy volumes, and its volumes whose file system growth failed or
    /// is overdue. Further calls have no effect.
    pub fn set_volumes(
        &self,
        unhealthy: impl Fn() -> Vec<UnhealthyVolume> + Send + Sync + 'static,
        not_grown: impl Fn() -> Vec<NotGrownVolume> + Send + Sync + 'static,
    ) {
        self.unhealthy.get_or_init(|| Box::new(unhealthy));
        self.not_grown.get_or_init(|| Box::new(not_grown));
    }

    /// Sets the function that returns, for each running operation, the kind of object that it locks (from a closed set)
    /// and how long it has run. Further calls have no effect.
    pub fn set_operations(&self, source: impl Fn() -> Vec<(&'static str, Duration)> + Send + Sync + 'static) {
        self.operations.get_or_init(|| Box::new(source));
    }

    /// Sets the reader of this node's disk statistics. Further calls have no effect.
    pub fn set_disks(&self, source: impl Disks) {
        self.disks.source.get_or_init(|| Box::new(source));
    }

    /// Counts an answered RPC. `method` (without its path) and the gRPC code's name must come from closed sets, because
    /// each pair is a separate series.
    pub fn count_rpc(&self, method: &str, code: &str, took: Duration) {
        self.rpcs.add(&[code, method], 1.0);
        self.rpc_seconds.observe(&[method], took.as_secs_f64());
    }

    /// Counts a finished EC2 call by its action. The action must come from a closed set.
    pub fn count_ec2_call(&self, action: &str, end: CallEnd<'_>, took: Duration) {
        self.ec2_calls.count(action, end, took);
    }

    /// Adds the time that a call spent in the rate limiter.
    pub fn count_ec2_wait(&self, action: &str, time: Duration) {
        self.ec2_calls.count_wait(action, time);
    }

    /// Counts an extra call of this action, which the driver made only to get the result of an operation sooner.
    pub fn count_spare_call(&self, action: &str) {
        self.spare_calls.add(&[action], 1.0);
    }

    /// Counts a wait for this action's result that ended only because enough time had passed.
    pub fn count_wait_ended_by_time(&self, action: &str) {
        self.ended_by_time.add(&[action], 1.0);
    }

    /// Records the result of a health check of EC2. Ignored unless [`MetricsConfig::checks_health`] is set.
    pub fn note_health_check(&self, outcome: Result<(), HealthFailure>) {
        if let Some(health_checks) = &self.health_checks {
            health_checks.note(outcome);
        }
    }

    /// Records whether the served certificate matches its files.
    pub(crate) fn note_certificate(&self, is_current: bool) {
        self.certificate.set(&[], if is_current { 1.0 } else { 0.0 });
    }

    /// Returns the page in Prometheus' text format, without the statistics of disks.
    pub fn page(&self) -> String {
        page(self.known())
    }

    /// Returns the whole page.
    ///
    /// Cancellation: the future may be dropped.
    pub async fn scrape(&self) -> String {
        let mut families = self.known();
        families.extend(self.disks.families().await);
        page(families)
    }

    fn known(&self) -> Vec<Family> {
        let calls = [&self.rpcs, &self.rpc_seconds, &self.spare_calls, &self.ended_by_time].map(Series::family);
        let mut families = vec![self.build.family(), self.certificate.family(), panics::family(&self.panics)];
        families.extend(calls);
        families.extend(self.ec2_calls.families());
        families.extend(self.health_checks.iter().flat_map(HealthChecks::families));
        families.extend(self.detaches.families());
        families.extend(unhealthy::families(&read(&self.unhealthy), &read(&self.not_grown)));
        families.extend(operations::families(read(&self.operations)));
        families
    }
}

fn read<T>(source: &Source<T>) -> Vec<T> {
    source.get().map(|source| source()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
