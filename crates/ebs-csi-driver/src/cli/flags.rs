//! The flags by group. Names, types and defaults are the reference driver's unless a comment notes a difference.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use component_base::logs::{LogFlags, LogFormat};

use super::values;

const LOG_HEADING: &str = "Logging flags that have no effect or are unsupported";

/// Flags of every mode.
#[derive(Debug, Clone, Args)]
pub(super) struct CommonFlags {
    /// Address of the CSI server: unix://PATH, or tcp://ADDRESS:PORT on loopback
    #[arg(long, default_value = "unix://tmp/csi.sock", value_name = "URL")]
    pub(super) endpoint: String,
    /// Permission bits of the CSI socket, in octal
    #[arg(long, default_value = "0600", value_name = "MODE")]
    pub(super) endpoint_mode: String,
    /// Address of /metrics, /healthz and /readyz: HOST:PORT or :PORT; not served if empty
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    pub(super) http_endpoint: String,
    /// Address of /healthz alone, which calls Probe over the CSI socket: HOST:PORT or :PORT; not served if empty
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    pub(super) health_endpoint: String,
    /// Maximum wait for running operations at shutdown; the log then lists unfinished ones
    #[arg(long, default_value = "20s", value_name = "DURATION", value_parser = values::duration)]
    pub(super) shutdown_timeout: Duration,
    /// Sources of this machine's metadata, tried in order: imds, kubernetes, metadata-labeler
    #[arg(long, default_value = "imds,kubernetes", value_name = "LIST")]
    pub(super) metadata_sources: Vec<String>,
    /// Verbosity of the log: 2 for operators, 4 shows each request, 7 shows everything
    #[arg(short = 'v', long = "v", default_value_t = 0, value_name = "LEVEL",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub(super) verbosity: u32,
    /// Format of the log lines
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub(super) logging_format: LogFormat,
    /// Print the version as JSON and exit
    #[arg(long)]
    pub(super) version: bool,
    /// Path of a kubeconfig file [default: the service account of the pod]
    #[arg(long, default_value = "", value_name = "PATH")]
    pub(super) kubeconfig: String,
    /// TLS certificate chain of the HTTP endpoint (PEM); reloaded when it changes
    #[arg(long, default_value = "", value_name = "FILE")]
    pub(super) metrics_cert_file: String,
    /// Private key of the TLS certificate (PEM)
    #[arg(long, default_value = "", value_name = "FILE")]
    pub(super) metrics_key_file: String,
    /// Export traces of RPCs and calls to AWS over OTLP; the OTEL_* variables configure the export
    #[arg(long)]
    pub(super) enable_otel_tracing: bool,
    /// Verbosity of individual source files, by patterns of their names without .rs; text format only
    #[arg(long, default_value = "", value_name = "PATTERN=N,…")]
    pub(super) vmodule: String,
    /// Deprecated: all lines go to standard error
    #[arg(long, help_heading = LOG_HEADING)]
    pub(super) logtostderr: bool,
    #[command(flatten, next_help_heading = LOG_HEADING)]
    pub(super) log: LogFlags,
    /// Words that are not flags are ignored, as in the reference driver.
    #[arg(hide = true)]
    pub(super) ignored: Vec<String>,
}

/// Flags of modes that call AWS.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "AWS flags")]
pub(super) struct AwsFlags {
    /// Suffix of the user agent in calls to AWS
    #[arg(long, default_value = "", value_name = "TEXT")]
    pub(super) user_agent_extra: String,
    /// Log each call to AWS with its request and response bodies
    #[arg(long)]
    pub(super) aws_sdk_debug_log: bool,
}

/// Flags of modes with a controller service.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Controller flags")]
pub(super) struct ControllerFlags {
    /// Tags for every resource that the driver creates; may be repeated
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(super) extra_tags: Vec<String>,
    /// Deprecated: use --extra-tags, which takes precedence for the same key
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(super) extra_volume_tags: Vec<String>,
    /// ID of the cluster, for ownership tags
    #[arg(long, default_value = "", value_name = "ID")]
    pub(super) k8s_tag_cluster_id: String,
    /// Skip a tag that EC2 would reject, with a warning, instead of failing the request
    #[arg(long)]
    pub(super) warn_on_invalid_tag: bool,
    /// Batch describe calls to EC2 (the default); false sends each call by itself, without delay
    #[arg(long, default_value = "true")]
    pub(super) batching: bool,
    /// Time to collect changes of a volume (size, type, IOPS, throughput), which the driver then sends to EC2 in one call
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = values::positive_duration)]
    pub(super) modify_volume_request_handler_timeout: Duration,
    /// Also serve the metrics of EC2 calls under the names of the in-tree cloud provider
    #[arg(long)]
    pub(super) deprecated_metrics: bool,
    /// Allow node-local volumes, whose handles are local-ebs://DEVICE
    #[arg(long)]
    pub(super) enable_node_local_volumes: bool,
}

/// Flags of modes with a node service.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node flags")]
pub(super) struct NodeFlags {
    /// Maximum number of volumes on this node; -1 derives it from the instance type
    #[arg(long, default_value = "-1", value_name = "COUNT", allow_hyphen_values = true, value_parser = values::integer)]
    pub(super) volume_attach_limit: i64,
    /// Attachments reserved for other uses; -1 reserves as many as exist at start-up
    #[arg(long, default_value = "-1", value_name = "COUNT", allow_hyphen_values = true, value_parser = values::integer)]
    pub(super) reserved_volume_attachments: i64,
    /// Directory for records that must survive a restart [default: the directory of the CSI socket]
    #[arg(long, value_name = "PATH")]
    pub(super) state_dir: Option<PathBuf>,
    /// Format xfs so that kernels up to 5.4 can mount it
    #[arg(long)]
    pub(super) legacy_xfs: bool,
    /// Directory below which all mounts are included in the disk metrics, in addition to the driver's own mounts
    #[arg(long, default_value = "", value_name = "PATH")]
    pub(super) csi_mount_point_prefix: String,
    /// On Windows: run as a host process, without csi-proxy
    #[arg(long)]
    pub(super) windows_host_process: bool,
    /// On Windows with another project's csi-proxy: format disks without a recognised file system, although that csi-proxy cannot prove that they are blank
    #[arg(long)]
    pub(super) format_over_csi_proxy: bool,
}
