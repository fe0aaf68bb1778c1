//! Counts the events of the other crates, and requests a check of EC2's health when calls fail.

use std::sync::Arc;
use std::time::Duration;

use ebs_aws::AwsEc2;
use ebs_cloud::Cloud;
use ebs_driver::server::RpcObserver;
use ebs_ec2::{Action, AttachmentState, Attempt, AttemptOutcome, ErrorClass, Observation, Observer};
use ebs_telemetry::{CallEnd, Metrics, PendingDetach};
use tokio::sync::Notify;

/// Counts RPCs and calls to EC2. Wakes the health watch when a failed call suggests that the driver cannot use EC2.
pub(crate) struct Counting {
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) health_in_doubt: Arc<Notify>,
}

impl Counting {
    pub(crate) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, health_in_doubt: Arc::default() }
    }
}

impl RpcObserver for Counting {
    fn finished(&self, rpc: &'static str, code: &'static str, took: Duration) {
        self.metrics.count_rpc(rpc, code, took);
    }
}

impl Observer for Counting {
    /// Requests a check of EC2's health if the call's final error suggests one. `attempted` counts individual attempts.
    fn observe(&self, observation: &Observation<'_>) {
        let in_doubt = observation.error.is_some_and(|error| {
            matches!(
                error.class,
                ErrorClass::NotSent
                    | ErrorClass::Ambiguous
                    | ErrorClass::Unauthenticated
                    | ErrorClass::Unauthorized
                    | ErrorClass::AccountState
            )
        });
        if in_doubt {
            self.health_in_doubt.notify_one();
        }
    }

    fn waited(&self, action: Action, time: Duration) {
        self.metrics.count_ec2_wait(action.as_str(), time);
    }

    fn spared(&self, action: Action) {
        self.metrics.count_spare_call(action.as_str());
    }

    fn ended_by_time(&self, action: Action) {
        self.metrics.count_wait_ended_by_time(action.as_str());
    }

    fn attempted(&self, attempt: &Attempt<'_>) {
        if is_counted(attempt) {
            self.metrics.count_ec2_call(attempt.action.as_str(), end(attempt.outcome), attempt.took);
        }
    }
}

pub(crate) fn pending_detaches(cloud: &Cloud<AwsEc2>) -> Vec<PendingDetach> {
    cloud.attachments.pending_detaches().into_iter().map(detach).collect()
}

fn detach(detach: ebs_cloud::PendingDetach) -> PendingDetach {
    PendingDetach {
        volume_id: detach.volume.to_string(),
        instance_id: detach.node.to_string(),
        attachment_state: match detach.state {
            AttachmentState::Attaching => "attaching".to_owned(),
            AttachmentState::Attached => "attached".to_owned(),
            AttachmentState::Detaching => "detaching".to_owned(),
            AttachmentState::Detached => "detached".to_owned(),
            AttachmentState::Busy => "busy".to_owned(),
            AttachmentState::Other(state) => state,
        },
        since: detach.since,
    }
}

/// EC2 actions whose duration series start at zero: those that dashboards expect, and others that the driver calls.
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

/// Returns false for dry runs, which end with an error when they succeed, and for calls to services other than EC2.
fn is_counted(attempt: &Attempt<'_>) -> bool {
    let of_another_service = matches!(
        attempt.action,
        Action::AttachClusterNodeVolume | Action::DetachClusterNodeVolume | Action::GetCallerIdentity
    );
    !attempt.dry_run && !of_another_service
}

fn end(outcome: AttemptOutcome<'_>) -> CallEnd<'_> {
    match outcome {
        AttemptOutcome::Succeeded => CallEnd::Done,
        AttemptOutcome::Throttled => CallEnd::Throttled,
        AttemptOutcome::Refused(code) => CallEnd::Refused(code),
        AttemptOutcome::Unanswered => CallEnd::NoAnswer("NoAnswer"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counted(action: Action, dry_run: bool, outcome: AttemptOutcome<'_>) -> String {
        let metrics = Arc::new(Metrics::default());
        let took = Duration::from_millis(10);
        Counting::new(Arc::clone(&metrics)).attempted(&Attempt { action, dry_run, took, outcome });
        metrics.page()
    }

    /// One series counts every call by action and outcome. Errors, throttles and durations each have their own series.
    #[test]
    fn aws_call_attempts_are_counted_by_action_and_outcome() {
        for (end, outcome, own) in [
            (AttemptOutcome::Succeeded, "ok", "_duration_seconds_count{"),
            (AttemptOutcome::Refused("VolumeInUse"), "VolumeInUse", r#"_errors_total{code="VolumeInUse","#),
            (AttemptOutcome::Throttled, "throttled", "_throttles_total{"),
            (AttemptOutcome::Unanswered, "NoAnswer", "s_total{"),
        ] {
            let page = counted(Action::AttachVolume, false, end);
            let of_all = format!(r#"aws_ebs_csi_api_requests_total{{outcome="{outcome}",request="AttachVolume"}} 1"#);
            assert!(page.contains(&of_all) && page.contains(&format!("aws_ebs_csi_api_request{own}")), "{page}");
        }
    }

    #[test]
    fn dry_runs_and_calls_to_other_services_are_not_counted() {
        assert!(!counted(Action::CreateVolume, true, AttemptOutcome::Succeeded).contains("CreateVolume"));
        for action in [Action::AttachClusterNodeVolume, Action::DetachClusterNodeVolume, Action::GetCallerIdentity] {
            assert!(!counted(action, false, AttemptOutcome::Succeeded).contains(action.as_str()));
        }
    }

    #[test]
    fn rpcs_token_waits_and_spare_ec2_calls_are_counted() {
        let metrics = Arc::new(Metrics::default());
        let counting = Counting::new(Arc::clone(&metrics));
        counting.finished("CreateVolume", "Aborted", Duration::from_secs(1));
        counting.waited(Action::AttachVolume, Duration::from_secs(2));
        counting.spared(Action::DetachVolume);
        counting.ended_by_time(Action::AttachVolume);
        for line in [
            r#"aws_ebs_csi_rpc_requests_total{code="Aborted",method="CreateVolume"} 1"#,
            r#"aws_ebs_csi_rpc_duration_seconds_sum{method="CreateVolume"} 1"#,
            r#"aws_ebs_csi_api_held_back_seconds_total{request="AttachVolume"} 2"#,
            r#"aws_ebs_csi_spare_calls_total{request="DetachVolume"} 1"#,
            r#"aws_ebs_csi_waits_ended_by_time_total{request="AttachVolume"} 1"#,
        ] {
            assert!(metrics.page().contains(line), "{}", metrics.page());
        }
    }
}
