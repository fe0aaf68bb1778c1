//! What the other crates tell of their work, counted.

use std::sync::Arc;
use std::time::Duration;

use ebs_driver::server::RpcObserver;
use ebs_ec2::{Observation, Observer};
use ebs_telemetry::Metrics;

/// Counts RPCs and calls to EC2.
pub(crate) struct Counting(pub(crate) Arc<Metrics>);

impl RpcObserver for Counting {
    fn finished(&self, rpc: &'static str, code: &'static str, _took: Duration) {
        self.0.count_rpc(rpc, code);
    }
}

impl Observer for Counting {
    fn observe(&self, observation: &Observation<'_>) {
        let outcome = observation.error.map_or_else(|| "ok".to_owned(), outcome);
        self.0.count_ec2_call(observation.action.as_str(), &outcome);
    }
}

/// EC2's own code, or what it means that there was none.
fn outcome(error: &ebs_ec2::Ec2Error) -> String {
    error.code.clone().unwrap_or_else(|| format!("{:?}", error.class))
}

#[cfg(test)]
mod tests {
    use ebs_ec2::{Action, Ec2Error, ErrorClass};

    use super::*;

    #[test]
    fn calls_count_by_ec2s_code_or_by_class_without_reply() {
        let metrics = Arc::new(Metrics::new());
        let counting = Counting(Arc::clone(&metrics));
        let mut error = Ec2Error::new(Action::AttachVolume, ErrorClass::NotSent, "refused");
        for (error, outcome) in [(None, "ok"), (Some(error.clone()), "NotSent"), {
            error.code = Some("VolumeInUse".to_owned());
            (Some(error), "VolumeInUse")
        }] {
            let took = Duration::ZERO;
            counting.observe(&Observation { action: Action::AttachVolume, took, error: error.as_ref() });
            let line = format!(r#"aws_ebs_csi_api_requests_total{{request="AttachVolume",outcome="{outcome}"}} 1"#);
            assert!(metrics.page().contains(&line), "{}", metrics.page());
        }
    }

    #[test]
    fn rpcs_count_by_method_and_code() {
        let metrics = Arc::new(Metrics::new());
        Counting(Arc::clone(&metrics)).finished("CreateVolume", "Aborted", Duration::from_secs(1));
        let line = r#"aws_ebs_csi_rpc_requests_total{method="CreateVolume",code="Aborted"} 1"#;
        assert!(metrics.page().contains(line), "{}", metrics.page());
    }
}
