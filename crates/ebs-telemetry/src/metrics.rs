//! The counters.

mod detaches;
mod ec2_calls;
mod health;
mod unhealthy;

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

pub use detaches::{PendingDetach, PendingDetaches};
pub use ec2_calls::CallEnd;
pub use health::HealthFailure;
pub use unhealthy::{UnhealthyVolume, UnhealthyVolumes};

use detaches::DetachCollector;
use ec2_calls::Ec2Calls;
use health::HealthChecks;
use unhealthy::UnhealthyCollector;

/// Name, without the `_total` that the text format appends, and help of the counter of RPCs.
const RPCS: (&str, &str) = ("aws_ebs_csi_rpc_requests", "CSI requests answered, by method and gRPC code");

/// Of calls that were made only to learn sooner what time would have told.
const SPARE_CALLS: (&str, &str) =
    ("aws_ebs_csi_spare_calls", "Calls with tokens that nobody needed, made to learn at once what time would tell");

/// Of waits that ended by time instead of by what was waited for.
const ENDED_BY_TIME: (&str, &str) = (
    "aws_ebs_csi_waits_ended_by_time",
    "Waits that were ended by time, although EC2 had said how to know the attachment itself",
);

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ActionLabel {
    request: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RpcLabels {
    method: String,
    code: String,
}

/// The registry and every counter in it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rpcs: Family<RpcLabels, Counter>,
    spare_calls: Family<ActionLabel, Counter>,
    ended_by_time: Family<ActionLabel, Counter>,
    ec2_calls: Ec2Calls,
    health_checks: Option<HealthChecks>,
}

/// What the page is to show besides what every driver counts.
#[derive(Debug, Clone, Default)]
pub struct MetricsConfig {
    /// The same figures under the names of the in-tree cloud provider too.
    pub with_deprecated: bool,
    /// EC2 actions whose durations are shown from the start, at zero.
    pub expected_actions: Vec<&'static str>,
    /// The driver asks EC2 for its health.
    pub checks_health: bool,
    /// Whoever waits for detachments.
    pub detaches: Option<Arc<dyn PendingDetaches>>,
    /// Whoever looks at the volumes of this node.
    pub volumes: Option<Arc<dyn UnhealthyVolumes>>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(MetricsConfig::default())
    }
}

impl Metrics {
    /// All counters, none with a sample yet.
    pub fn new(config: MetricsConfig) -> Self {
        let mut registry = Registry::default();
        let rpcs = Family::default();
        registry.register(RPCS.0, RPCS.1, rpcs.clone());
        let (spare_calls, ended_by_time) = (Family::default(), Family::default());
        registry.register(SPARE_CALLS.0, SPARE_CALLS.1, spare_calls.clone());
        registry.register(ENDED_BY_TIME.0, ENDED_BY_TIME.1, ended_by_time.clone());
        let ec2_calls = Ec2Calls::register(&mut registry, config.with_deprecated);
        ec2_calls.expect(&config.expected_actions);
        let health_checks = config.checks_health.then(|| HealthChecks::register(&mut registry));
        if let Some(source) = config.detaches {
            registry.register_collector(Box::new(DetachCollector::new(source)));
        }
        if let Some(source) = config.volumes {
            registry.register_collector(Box::new(UnhealthyCollector(source)));
        }
        Self { registry, rpcs, spare_calls, ended_by_time, ec2_calls, health_checks }
    }

    /// Counts an answered RPC. `method` is the bare name (`CreateVolume`), `code` the gRPC code's name (`OK`,
    /// `Aborted` …). Both must come from closed sets: each pair is a series of its own.
    pub fn count_rpc(&self, method: &str, code: &str) {
        self.rpcs.get_or_create(&RpcLabels { method: method.to_owned(), code: code.to_owned() }).inc();
    }

    /// Counts an ended EC2 call by its action, which must come from a closed set.
    pub fn count_ec2_call(&self, action: &str, end: CallEnd<'_>, took: Duration) {
        self.ec2_calls.count(action, end, took);
    }

    /// Adds the time for which a call was held back.
    pub fn count_ec2_wait(&self, action: &str, time: Duration) {
        self.ec2_calls.count_wait(action, time);
    }

    /// Counts a call by its action that was made only to learn sooner what time would have told.
    pub fn count_spare_call(&self, action: &str) {
        self.spare_calls.get_or_create(&ActionLabel { request: action.to_owned() }).inc();
    }

    /// Counts a wait for what that action had begun that was ended by time.
    pub fn count_wait_ended_by_time(&self, action: &str) {
        self.ended_by_time.get_or_create(&ActionLabel { request: action.to_owned() }).inc();
    }

    /// The outcome of a health check of EC2, where [`MetricsConfig::checks_health`] says that there are any.
    pub fn note_health_check(&self, outcome: Result<(), HealthFailure>) {
        if let Some(health_checks) = &self.health_checks {
            health_checks.note(outcome);
        }
    }

    /// The page in the OpenMetrics text format.
    pub fn page(&self) -> String {
        let mut page = String::new();
        // Writing to a string fails only when a metric refuses to be encoded; then the page holds those before it.
        if let Err(error) = encode(&mut page, &self.registry) {
            tracing::error!(%error, "the metrics page is incomplete");
        }
        page
    }
}

#[cfg(test)]
mod tests;
