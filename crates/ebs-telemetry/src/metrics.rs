//! The counters.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::registry::Registry;

/// Name, without the `_total` that the text format appends, and help of the counter of RPCs.
const RPCS: (&str, &str) = ("aws_ebs_csi_rpc_requests", "CSI requests answered, by method and gRPC code");
/// The same of the counter of EC2 calls.
const EC2_CALLS: (&str, &str) = ("aws_ebs_csi_api_requests", "EC2 calls ended, by action and outcome");

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RpcLabels {
    method: String,
    code: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    request: String,
    outcome: String,
}

/// The registry and every counter in it.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    rpcs: Family<RpcLabels, Counter>,
    ec2_calls: Family<CallLabels, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All counters, none with a sample yet.
    pub fn new() -> Self {
        let mut registry = Registry::default();
        let rpcs = Family::default();
        let ec2_calls = Family::default();
        registry.register(RPCS.0, RPCS.1, rpcs.clone());
        registry.register(EC2_CALLS.0, EC2_CALLS.1, ec2_calls.clone());
        Self { registry, rpcs, ec2_calls }
    }

    /// Counts an answered RPC. `method` is the bare name (`CreateVolume`), `code` the gRPC code's name (`OK`,
    /// `Aborted` …). Both must come from closed sets: each pair is a series of its own.
    pub fn count_rpc(&self, method: &str, code: &str) {
        self.rpcs.get_or_create(&RpcLabels { method: method.to_owned(), code: code.to_owned() }).inc();
    }

    /// Counts an ended EC2 call. `outcome` is `ok`, EC2's error code, or the name of an error class where there was
    /// no reply.
    pub fn count_ec2_call(&self, action: &str, outcome: &str) {
        let labels = CallLabels { request: action.to_owned(), outcome: outcome.to_owned() };
        self.ec2_calls.get_or_create(&labels).inc();
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
mod tests {
    use super::*;

    #[test]
    fn rpcs_are_counted_by_method_and_code() {
        let metrics = Metrics::new();
        metrics.count_rpc("CreateVolume", "OK");
        metrics.count_rpc("CreateVolume", "OK");
        metrics.count_rpc("CreateVolume", "Aborted");
        let page = metrics.page();
        assert!(page.contains(r#"aws_ebs_csi_rpc_requests_total{method="CreateVolume",code="OK"} 2"#), "{page}");
        assert!(page.contains(r#"aws_ebs_csi_rpc_requests_total{method="CreateVolume",code="Aborted"} 1"#), "{page}");
    }

    #[test]
    fn ec2_calls_are_counted_by_action_and_outcome() {
        let metrics = Metrics::new();
        metrics.count_ec2_call("AttachVolume", "ok");
        metrics.count_ec2_call("AttachVolume", "RequestLimitExceeded");
        let page = metrics.page();
        assert!(page.contains(r#"aws_ebs_csi_api_requests_total{request="AttachVolume",outcome="ok"} 1"#), "{page}");
        assert!(page.contains(r#"outcome="RequestLimitExceeded"} 1"#), "{page}");
    }
}
