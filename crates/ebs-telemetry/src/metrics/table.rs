//! Declares every metric of the driver once, with the text of `docs/metrics.md`.
//!
//! Only this module can create a [`Row`], and every store and sample needs one, so that undeclared metrics cannot
//! appear.
//!
//! Decision: `docs/decisions/0027-keep-the-reference-drivers-metrics.md`.

/// The Prometheus type of a metric.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Kind {
    /// Increases until a restart.
    Counter,
    /// A current value.
    Gauge,
    /// Counts by these upper bounds, in the metric's unit.
    Histogram(&'static [f64]),
    /// A histogram with the bounds of a disk's log page.
    DiskHistogram,
}

/// The drivers that have the metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// In every mode.
    Everywhere,
    /// In modes with a controller service.
    Controller,
    /// Modes with a controller service, with `--deprecated-metrics` only.
    Deprecated,
    /// In modes with a node service.
    Node,
    /// With metrics over TLS.
    Tls,
}

/// The origin of the name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The reference driver. Type, labels and buckets are the same and never change.
    Reference,
    Ours,
}

/// A metric.
#[derive(Debug)]
pub(super) struct Row {
    name: &'static str,
    kind: Kind,
    /// In alphabetical order, as on the page.
    labels: &'static [&'static str],
    shown: Shown,
    origin: Origin,
    help: &'static str,
}

impl Row {
    const fn new(name: &'static str, kind: Kind, help: &'static str) -> Self {
        Self { name, kind, labels: &[], shown: Shown::Everywhere, origin: Origin::Ours, help }
    }

    const fn counter(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Counter, help)
    }

    const fn gauge(name: &'static str, help: &'static str) -> Self {
        Self::new(name, Kind::Gauge, help)
    }

    const fn histogram(name: &'static str, bounds: &'static [f64], help: &'static str) -> Self {
        Self::new(name, Kind::Histogram(bounds), help)
    }

    const fn by(mut self, labels: &'static [&'static str]) -> Self {
        self.labels = labels;
        self
    }

    const fn of(mut self, shown: Shown) -> Self {
        self.shown = shown;
        self
    }

    const fn of_the_reference(mut self) -> Self {
        self.origin = Origin::Reference;
        self
    }

    /// Returns the name on the page, including `_total`.
    pub(super) const fn name(&self) -> &'static str {
        self.name
    }

    pub(super) const fn kind(&self) -> Kind {
        self.kind
    }

    pub(super) const fn labels(&self) -> &'static [&'static str] {
        self.labels
    }

    pub(super) const fn help(&self) -> &'static str {
        self.help
    }

    #[cfg(test)]
    pub(super) const fn shown(&self) -> Shown {
        self.shown
    }

    #[cfg(test)]
    pub(super) const fn origin(&self) -> Origin {
        self.origin
    }

    /// Returns the unit in the name, or an empty text for plain numbers.
    #[cfg(test)]
    pub(super) fn unit(&self) -> &'static str {
        let bare = self.name.strip_suffix("_total").unwrap_or(self.name);
        ["seconds", "bytes"].into_iter().find(|unit| bare.ends_with(unit)).unwrap_or("")
    }
}

/// Prometheus' own default bounds, in seconds.
const DEFAULT_BOUNDS: &[f64] = &[0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The reference's bounds for the time to read detachments, in seconds.
const EC2_COLLECTOR_BOUNDS: &[f64] = &[0.01, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0];
/// The reference's bounds for the time to read the disks, in seconds.
const DISK_COLLECTOR_BOUNDS: &[f64] = &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0];
/// From reading the mount table to the longest wait for EC2, in seconds.
const RPC_BOUNDS: &[f64] = &[0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 60.0, 120.0, 300.0, 600.0];

/// Declares named rows and the table of all rows.
macro_rules! declare {
    ($($id:ident = $row:expr;)*) => {
        $(pub(super) static $id: Row = $row;)*
        /// All rows.
        #[cfg(test)]
        pub(super) static TABLE: &[&Row] = &[$(&$id),*];
    };
}

declare! {
    BUILD_INFO = Row::gauge("aws_ebs_csi_build_info", "Build of the driver, in the labels; always 1")
        .by(&["commit", "version"]);
    PANICS = Row::counter("aws_ebs_csi_panics_total", "Requests and tasks that ended with a panic, each of which is logged");
    RPCS = Row::counter("aws_ebs_csi_rpc_requests_total", "Completed CSI requests, by method and gRPC code")
        .by(&["code", "method"]);
    RPC_SECONDS = Row::histogram(
        "aws_ebs_csi_rpc_duration_seconds",
        RPC_BOUNDS,
        "Duration of CSI requests in seconds, successful or not",
    )
    .by(&["method"]);
    OPERATIONS = Row::gauge(
        "aws_ebs_csi_operations_running",
        "Running operations, by the object that they lock; they may outlive their requests",
    )
    .by(&["operation"]);
    OLDEST_OPERATION = Row::gauge(
        "aws_ebs_csi_operations_oldest_seconds",
        "Age of the oldest running operation in seconds, by the object that it locks",
    )
    .by(&["operation"]);
    CERTIFICATE = Row::gauge(
        "aws_ebs_csi_metrics_certificate_last_reload_successful",
        "1 if the metrics certificate matches its files, 0 if they are unusable and the previous certificate is served",
    )
    .of(Shown::Tls);

    EC2_SECONDS = Row::histogram(
        "aws_ebs_csi_api_request_duration_seconds",
        DEFAULT_BOUNDS,
        "Duration of successful calls to EC2 in seconds",
    )
    .by(&["request"])
    .of(Shown::Controller)
    .of_the_reference();
    EC2_ERRORS = Row::counter(
        "aws_ebs_csi_api_request_errors_total",
        "Calls that EC2 rejected, except throttled ones, by error code",
    )
    .by(&["code", "request"])
    .of(Shown::Controller)
    .of_the_reference();
    EC2_THROTTLES = Row::counter("aws_ebs_csi_api_request_throttles_total", "Calls that EC2 throttled")
        .by(&["operation_name"])
        .of(Shown::Controller)
        .of_the_reference();
    OLD_EC2_SECONDS = Row::histogram(
        "cloudprovider_aws_api_request_duration_seconds",
        DEFAULT_BOUNDS,
        "aws_ebs_csi_api_request_duration_seconds under the name of the in-tree cloud provider",
    )
    .by(&["request"])
    .of(Shown::Deprecated)
    .of_the_reference();
    OLD_EC2_ERRORS = Row::counter(
        "cloudprovider_aws_api_request_errors",
        "aws_ebs_csi_api_request_errors_total under the name of the in-tree cloud provider",
    )
    .by(&["code", "request"])
    .of(Shown::Deprecated)
    .of_the_reference();
    OLD_EC2_THROTTLES = Row::counter(
        "cloudprovider_aws_api_throttled_requests_total",
        "aws_ebs_csi_api_request_throttles_total under the name of the in-tree cloud provider",
    )
    .by(&["operation_name"])
    .of(Shown::Deprecated)
    .of_the_reference();
    EC2_CALLS = Row::counter("aws_ebs_csi_api_requests_total", "Completed calls to EC2, by action and outcome")
        .by(&["outcome", "request"])
        .of(Shown::Controller);
    HELD_BACK = Row::counter(
        "aws_ebs_csi_api_held_back_seconds_total",
        "Time in seconds that the rate limiter of the driver delayed calls to EC2",
    )
    .by(&["request"])
    .of(Shown::Controller);
    SPARE_CALLS = Row::counter(
        "aws_ebs_csi_spare_calls_total",
        "Extra calls to EC2 with spare rate limit tokens, each in place of a longer wait",
    )
    .by(&["request"])
    .of(Shown::Controller);
    ENDED_BY_TIME = Row::counter(
        "aws_ebs_csi_waits_ended_by_time_total",
        "Waits that ended by time because EC2 listed another attach time than it had returned",
    )
    .by(&["request"])
    .of(Shown::Controller);
    HEALTH_SUCCESS = Row::gauge(
        "aws_ebs_csi_ec2_health_check_success",
        "1 if EC2 answered the last health check and accepted the credentials, 0 if not or before the first check",
    )
    .of(Shown::Controller);
    HEALTH_FAILURES = Row::counter("aws_ebs_csi_ec2_health_check_failures_total", "Failed health checks of EC2, by reason")
        .by(&["reason"])
        .of(Shown::Controller);
    DETACH_PENDING = Row::counter(
        "aws_ebs_csi_ec2_detach_pending_seconds_total",
        "Time in seconds that a detachment has been pending, once it exceeds 60 s and until the detachment ends",
    )
    .by(&["attachment_state", "instance_id", "volume_id"])
    .of(Shown::Controller)
    .of_the_reference();
    DETACH_AGE = Row::gauge(
        "aws_ebs_csi_ec2_detachment_age_seconds",
        "Age in seconds of a detachment that has been pending for more than 60 s; it restarts at 0 with a new leader",
    )
    .by(&["attachment_state", "instance_id", "volume_id"])
    .of(Shown::Controller);
    EC2_COLLECTOR_SCRAPES = Row::counter("aws_ebs_csi_ec2_collector_scrapes_total", "Number of collections of pending detachments")
        .of(Shown::Controller)
        .of_the_reference();
    EC2_COLLECTOR_SECONDS = Row::histogram(
        "aws_ebs_csi_ec2_collector_duration_seconds",
        EC2_COLLECTOR_BOUNDS,
        "Duration of a collection of pending detachments in seconds",
    )
    .of(Shown::Controller)
    .of_the_reference();

    UNHEALTHY = Row::gauge(
        "aws_ebs_csi_volume_unhealthy",
        "1 for each unhealthy volume on this node, by status and reason",
    )
    .by(&["reason", "status", "volume_id"])
    .of(Shown::Node);
    NOT_GROWN = Row::gauge(
        "aws_ebs_csi_volume_not_grown_bytes",
        "Bytes by which the file system of a volume on this node is smaller than its disk, if growth failed or is pending for five minutes",
    )
    .by(&["volume_id"])
    .of(Shown::Node);
    READ_OPERATIONS = of_disk(Row::counter("aws_ebs_csi_read_ops_total", "Read operations that the volume completed"));
    WRITE_OPERATIONS = of_disk(Row::counter("aws_ebs_csi_write_ops_total", "Write operations that the volume completed"));
    READ_BYTES = of_disk(Row::counter("aws_ebs_csi_read_bytes_total", "Bytes read from the volume"));
    WRITE_BYTES = of_disk(Row::counter("aws_ebs_csi_write_bytes_total", "Bytes written to the volume"));
    READ_SECONDS = of_disk(Row::counter("aws_ebs_csi_read_seconds_total", "Total duration of the volume's read operations in seconds"));
    WRITE_SECONDS = of_disk(Row::counter("aws_ebs_csi_write_seconds_total", "Total duration of the volume's write operations in seconds"));
    VOLUME_IOPS = of_disk(Row::counter(
        "aws_ebs_csi_exceeded_iops_seconds_total",
        "Time in seconds that demand exceeded the provisioned IOPS of the volume",
    ));
    VOLUME_THROUGHPUT = of_disk(Row::counter(
        "aws_ebs_csi_exceeded_tp_seconds_total",
        "Time in seconds that demand exceeded the provisioned throughput of the volume",
    ));
    INSTANCE_IOPS = of_disk(Row::counter(
        "aws_ebs_csi_ec2_exceeded_iops_seconds_total",
        "Time in seconds that demand on the volume exceeded the maximum EBS IOPS of the instance",
    ));
    INSTANCE_THROUGHPUT = of_disk(Row::counter(
        "aws_ebs_csi_ec2_exceeded_tp_seconds_total",
        "Time in seconds that demand on the volume exceeded the maximum EBS throughput of the instance",
    ));
    QUEUE_LENGTH = of_disk(Row::gauge("aws_ebs_csi_volume_queue_length", "Operations in the queue of the volume"));
    READ_LATENCY = of_disk(Row::new(
        "aws_ebs_csi_read_io_latency_seconds",
        Kind::DiskHistogram,
        "Latency of read operations in seconds, in the buckets of the volume",
    ));
    WRITE_LATENCY = of_disk(Row::new(
        "aws_ebs_csi_write_io_latency_seconds",
        Kind::DiskHistogram,
        "Latency of write operations in seconds, in the buckets of the volume",
    ));
    DISK_SCRAPES = of_node(Row::counter("aws_ebs_csi_nvme_collector_scrapes_total", "Number of collections of volume statistics"));
    DISK_ERRORS = of_node(Row::counter(
        "aws_ebs_csi_nvme_collector_errors_total",
        "Failed reads of volume statistics and failed searches for volumes",
    ));
    DISK_SECONDS = of_node(Row::histogram(
        "aws_ebs_csi_nvme_collector_duration_seconds",
        DISK_COLLECTOR_BOUNDS,
        "Duration of a collection of volume statistics in seconds",
    ));
}

/// A metric of the reference for one volume on a node.
const fn of_disk(row: Row) -> Row {
    row.by(&["instance_id", "volume_id"]).of(Shown::Node).of_the_reference()
}

/// A metric of the reference for all volumes on a node.
const fn of_node(row: Row) -> Row {
    row.by(&["instance_id"]).of(Shown::Node).of_the_reference()
}
