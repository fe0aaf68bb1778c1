//! What the other crates tell of their work, counted.

use std::sync::Arc;
use std::time::Duration;

use ebs_driver::server::RpcObserver;
use ebs_ec2::{Action, Ec2Error, ErrorClass, Observation, Observer};
use ebs_telemetry::{CallEnd, Metrics};

/// Counts RPCs and calls to EC2.
pub(crate) struct Counting(pub(crate) Arc<Metrics>);

impl RpcObserver for Counting {
    fn finished(&self, rpc: &'static str, code: &'static str, _took: Duration) {
        self.0.count_rpc(rpc, code);
    }
}

impl Observer for Counting {
    fn observe(&self, observation: &Observation<'_>) {
        if is_counted(observation) {
            self.0.count_ec2_call(observation.action.as_str(), end(observation.error), observation.took);
        }
    }
}

/// The actions whose durations dashboards expect from the start (`ebs-cloud.md` 14), and those that were added to the
/// driver since (E19).
pub(crate) const EXPECTED_ACTIONS: [&str; 20] = [
    "CreateVolume",
    "DeleteVolume",
    "AttachVolume",
    "DetachVolume",
    "ModifyVolume",
    "DescribeVolumes",
    "DescribeVolumesModifications",
    "CreateSnapshot",
    "DeleteSnapshot",
    "DescribeSnapshots",
    "DescribeInstances",
    "DescribeAvailabilityZones",
    "DescribeTags",
    "CreateTags",
    "DeleteTags",
    "EnableFastSnapshotRestores",
    "CopyVolumes",
    "DescribeVolumeStatus",
    "LockSnapshot",
    "DescribeInstanceTypes",
];

/// Dry runs answer with an error when all is well, and calls to other services are none of EC2's: neither counts.
fn is_counted(observation: &Observation<'_>) -> bool {
    let of_another_service = matches!(
        observation.action,
        Action::AttachClusterNodeVolume | Action::DetachClusterNodeVolume | Action::GetCallerIdentity
    );
    !observation.dry_run && !of_another_service
}

fn end(error: Option<&Ec2Error>) -> CallEnd<'_> {
    let Some(error) = error else { return CallEnd::Done };
    match (error.class, &error.code) {
        (ErrorClass::Throttled, _) => CallEnd::Throttled,
        (_, Some(code)) => CallEnd::Refused(code),
        (ErrorClass::NotSent, None) => CallEnd::NoAnswer("NotSent"),
        (_, None) => CallEnd::NoAnswer("NoAnswer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(action: Action, dry_run: bool, error: Option<&Ec2Error>) -> String {
        let metrics = Arc::new(Metrics::default());
        let took = Duration::from_millis(10);
        Counting(Arc::clone(&metrics)).observe(&Observation { action, took, dry_run, error });
        metrics.page()
    }

    fn error(class: ErrorClass, code: Option<&str>) -> Ec2Error {
        Ec2Error { code: code.map(str::to_owned), ..Ec2Error::new(Action::AttachVolume, class, "as planned") }
    }

    #[test]
    fn calls_count_by_ec2s_code_and_throttles_by_themselves() {
        let refused = error(ErrorClass::VolumeInUse, Some("VolumeInUse"));
        let throttled = error(ErrorClass::Throttled, Some("RequestLimitExceeded"));
        let lost = error(ErrorClass::Ambiguous, None);
        let not_sent = error(ErrorClass::NotSent, None);
        for (error, outcome, line) in [
            (None, "ok", r#"aws_ebs_csi_api_request_duration_seconds_count{request="AttachVolume"} 1"#),
            (
                Some(&refused),
                "VolumeInUse",
                r#"aws_ebs_csi_api_request_errors_total{request="AttachVolume",code="VolumeInUse"} 1"#,
            ),
            (
                Some(&throttled),
                "throttled",
                r#"aws_ebs_csi_api_request_throttles_total{operation_name="AttachVolume"} 1"#,
            ),
            (Some(&lost), "NoAnswer", ""),
            (Some(&not_sent), "NotSent", ""),
        ] {
            let page = observed(Action::AttachVolume, false, error);
            let of_all = format!(r#"aws_ebs_csi_api_requests_total{{request="AttachVolume",outcome="{outcome}"}} 1"#);
            assert!(page.contains(&of_all) && page.contains(line), "{page}");
        }
    }

    #[test]
    fn dry_runs_and_calls_to_other_services_do_not_count() {
        assert!(!observed(Action::CreateVolume, true, None).contains("CreateVolume"));
        for action in [Action::AttachClusterNodeVolume, Action::DetachClusterNodeVolume, Action::GetCallerIdentity] {
            assert!(!observed(action, false, None).contains(action.as_str()));
        }
    }

    #[test]
    fn rpcs_count_by_method_and_code() {
        let metrics = Arc::new(Metrics::default());
        Counting(Arc::clone(&metrics)).finished("CreateVolume", "Aborted", Duration::from_secs(1));
        let line = r#"aws_ebs_csi_rpc_requests_total{method="CreateVolume",code="Aborted"} 1"#;
        assert!(metrics.page().contains(line), "{}", metrics.page());
    }
}
