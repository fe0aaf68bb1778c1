//! Declares every metric of the driver once. Tests compare the page and `docs/metrics.md` with this table.
//!
//! Decision: `docs/dev/decisions/0027-keep-the-reference-drivers-metrics.md`.

use component_base::metrics::Desc;

/// Prometheus' own default bounds, in seconds.
const DEFAULT_BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The reference driver's bounds for the time to read detachments, in seconds.
const EC2_COLLECTOR_BOUNDS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The reference driver's bounds for the time to read the disks, in seconds.
const DISK_COLLECTOR_BOUNDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// Bounds in seconds, from the time to read the mount table to the longest wait for EC2.
const RPC_BOUNDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// Declares metrics. Each has a type, a name, labels, where it is shown, where its name comes from, and a help text.
macro_rules! declare {
    ($($id:ident = $kind:ident$(($bounds:expr))? $name:literal $labels:tt $shown:ident $origin:ident, $help:literal;)*) => {
        $(pub(super) static $id: Desc = Desc::$kind($name, $($bounds,)? $help).by(&$labels);)*

        #[cfg(test)]
        pub(super) static TABLE: &[super::tests::Row] = &[$(super::tests::Row {
            desc: &$id,
            shown: super::tests::Shown::$shown,
            origin: super::tests::Origin::$origin,
        }),*];
    };
}

declare! {
    BUILD_INFO = gauge "aws_ebs_csi_build_info" ["commit", "version"] Everywhere Ours,
        "Always 1; the labels contain the commit and version of the driver";
    PANICS = counter "aws_ebs_csi_panics_total" [] Everywhere Ours,
        "Requests and tasks that ended with a panic, each of which is logged";
    RPCS = counter "aws_ebs_csi_rpc_requests_total" ["code", "method"] Everywhere Ours,
        "Completed CSI requests, by method and gRPC code";
    RPC_SECONDS = histogram(RPC_BOUNDS) "aws_ebs_csi_rpc_duration_seconds" ["method"] Everywhere Ours,
        "Duration of CSI requests in seconds, successful or not";
    OPERATIONS = gauge "aws_ebs_csi_operations_running" ["operation"] Everywhere Ours,
        "Running operations, by the object that they lock; they may outlive their requests";
    OLDEST_OPERATION = gauge "aws_ebs_csi_operations_oldest_seconds" ["operation"] Everywhere Ours,
        "Age of the oldest running operation in seconds, by the object that it locks";
    CERTIFICATE = gauge "aws_ebs_csi_metrics_certificate_last_reload_successful" [] Tls Ours,
        "1 if the metrics certificate matches its files, 0 if they are unusable and the previous certificate is served";

    EC2_SECONDS = histogram(DEFAULT_BOUNDS) "aws_ebs_csi_api_request_duration_seconds" ["request"] Controller Reference,
        "Duration of successful calls to EC2 in seconds";
    EC2_ERRORS = counter "aws_ebs_csi_api_request_errors_total" ["code", "request"] Controller Reference,
        "Calls that EC2 rejected, except throttled ones, by error code";
    EC2_THROTTLES = counter "aws_ebs_csi_api_request_throttles_total" ["operation_name"] Controller Reference,
        "Calls that EC2 throttled";
    OLD_EC2_SECONDS = histogram(DEFAULT_BOUNDS) "cloudprovider_aws_api_request_duration_seconds" ["request"] Deprecated Reference,
        "Same as aws_ebs_csi_api_request_duration_seconds, under the name that the in-tree cloud provider used";
    OLD_EC2_ERRORS = counter "cloudprovider_aws_api_request_errors" ["code", "request"] Deprecated Reference,
        "Same as aws_ebs_csi_api_request_errors_total, under the name that the in-tree cloud provider used";
    OLD_EC2_THROTTLES = counter "cloudprovider_aws_api_throttled_requests_total" ["operation_name"] Deprecated Reference,
        "Same as aws_ebs_csi_api_request_throttles_total, under the name that the in-tree cloud provider used";
    EC2_CALLS = counter "aws_ebs_csi_api_requests_total" ["outcome", "request"] Controller Ours,
        "Completed calls to EC2, by action and outcome";
    HELD_BACK = counter "aws_ebs_csi_api_held_back_seconds_total" ["request"] Controller Ours,
        "Time in seconds that the rate limiter of the driver delayed calls to EC2";
    SPARE_CALLS = counter "aws_ebs_csi_spare_calls_total" ["request"] Controller Ours,
        "Extra calls to EC2 that used spare rate limit tokens to avoid a longer wait";
    ENDED_BY_TIME = counter "aws_ebs_csi_waits_ended_by_time_total" ["request"] Controller Ours,
        "Waits that took the maximum time, because EC2 listed a different attach time than it had returned";
    HEALTH_SUCCESS = gauge "aws_ebs_csi_ec2_health_check_success" [] Controller Ours,
        "1 if EC2 answered the last health check and accepted the credentials, 0 if not or before the first check";
    HEALTH_FAILURES = counter "aws_ebs_csi_ec2_health_check_failures_total" ["reason"] Controller Ours,
        "Failed health checks of EC2, by reason";
    DETACH_PENDING = counter "aws_ebs_csi_ec2_detach_pending_seconds_total" ["attachment_state", "instance_id", "volume_id"] Controller Reference,
        "Time in seconds that a detachment has been pending; reported once it exceeds 60 s, until the detachment ends";
    DETACH_AGE = gauge "aws_ebs_csi_ec2_detachment_age_seconds" ["attachment_state", "instance_id", "volume_id"] Controller Ours,
        "Age in seconds of a detachment that has been pending for more than 60 s; it restarts at 0 with a new leader";
    EC2_COLLECTOR_SCRAPES = counter "aws_ebs_csi_ec2_collector_scrapes_total" [] Controller Reference,
        "Number of collections of pending detachments";
    EC2_COLLECTOR_SECONDS = histogram(EC2_COLLECTOR_BOUNDS) "aws_ebs_csi_ec2_collector_duration_seconds" [] Controller Reference,
        "Duration of a collection of pending detachments in seconds";

    UNHEALTHY = gauge "aws_ebs_csi_volume_unhealthy" ["reason", "status", "volume_id"] Node Ours,
        "1 for each unhealthy volume on this node, by status and reason";
    NOT_GROWN = gauge "aws_ebs_csi_volume_not_grown_bytes" ["volume_id"] Node Ours,
        "Bytes by which the file system of a volume on this node is smaller than its disk, if growth failed or has been pending for five minutes";
    READ_OPERATIONS = counter "aws_ebs_csi_read_ops_total" ["instance_id", "volume_id"] Node Reference,
        "Read operations that the volume completed";
    WRITE_OPERATIONS = counter "aws_ebs_csi_write_ops_total" ["instance_id", "volume_id"] Node Reference,
        "Write operations that the volume completed";
    READ_BYTES = counter "aws_ebs_csi_read_bytes_total" ["instance_id", "volume_id"] Node Reference,
        "Bytes read from the volume";
    WRITE_BYTES = counter "aws_ebs_csi_write_bytes_total" ["instance_id", "volume_id"] Node Reference,
        "Bytes written to the volume";
    READ_SECONDS = counter "aws_ebs_csi_read_seconds_total" ["instance_id", "volume_id"] Node Reference,
        "Total duration of the volume's read operations in seconds";
    WRITE_SECONDS = counter "aws_ebs_csi_write_seconds_total" ["instance_id", "volume_id"] Node Reference,
        "Total duration of the volume's write operations in seconds";
    VOLUME_IOPS = counter "aws_ebs_csi_exceeded_iops_seconds_total" ["instance_id", "volume_id"] Node Reference,
        "Time in seconds that demand exceeded the provisioned IOPS of the volume";
    VOLUME_THROUGHPUT = counter "aws_ebs_csi_exceeded_tp_seconds_total" ["instance_id", "volume_id"] Node Reference,
        "Time in seconds that demand exceeded the provisioned throughput of the volume";
    INSTANCE_IOPS = counter "aws_ebs_csi_ec2_exceeded_iops_seconds_total" ["instance_id", "volume_id"] Node Reference,
        "Time in seconds that demand on the volume exceeded the maximum EBS IOPS of the instance";
    INSTANCE_THROUGHPUT = counter "aws_ebs_csi_ec2_exceeded_tp_seconds_total" ["instance_id", "volume_id"] Node Reference,
        "Time in seconds that demand on the volume exceeded the maximum EBS throughput of the instance";
    QUEUE_LENGTH = gauge "aws_ebs_csi_volume_queue_length" ["instance_id", "volume_id"] Node Reference,
        "Operations in the queue of the volume";
    READ_LATENCY = histogram(&[]) "aws_ebs_csi_read_io_latency_seconds" ["instance_id", "volume_id"] Node Reference,
        "Latency of read operations in seconds, in the buckets that the volume reports";
    WRITE_LATENCY = histogram(&[]) "aws_ebs_csi_write_io_latency_seconds" ["instance_id", "volume_id"] Node Reference,
        "Latency of write operations in seconds, in the buckets that the volume reports";
    DISK_SCRAPES = counter "aws_ebs_csi_nvme_collector_scrapes_total" ["instance_id"] Node Reference,
        "Number of collections of volume statistics";
    DISK_ERRORS = counter "aws_ebs_csi_nvme_collector_errors_total" ["instance_id"] Node Reference,
        "Failed reads of volume statistics and failed searches for volumes";
    DISK_SECONDS = histogram(DISK_COLLECTOR_BOUNDS) "aws_ebs_csi_nvme_collector_duration_seconds" ["instance_id"] Node Reference,
        "Duration of a collection of volume statistics in seconds";
}
