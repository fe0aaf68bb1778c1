//! The flags by group. Names, types and defaults are the reference driver's unless a comment notes a difference.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

use super::values;

/// The reference driver's default of `--log-flush-frequency`.
pub(super) const DEFAULT_FLUSH: &str = "5s";

/// Flags of every mode.
#[derive(Debug, Clone, Args)]
pub(super) struct CommonFlags {
    /// Where to serve CSI: unix://PATH, or tcp://ADDRESS:PORT on loopback
    #[arg(long, default_value = "unix://tmp/csi.sock", value_name = "URL")]
    pub(super) endpoint: String,
    /// Permission bits of the CSI socket, in octal
    #[arg(long, default_value = "0600", value_name = "MODE")]
    pub(super) endpoint_mode: String,
    /// Where to serve /metrics, /healthz and /readyz: HOST:PORT or :PORT; empty: nowhere
    #[arg(long, default_value = "", value_name = "ADDRESS", hide_default_value = true)]
    pub(super) http_endpoint: String,
    /// How long a stop waits for running operations before it says what it leaves behind
    #[arg(long, default_value = "20s", value_name = "DURATION", value_parser = values::duration)]
    pub(super) shutdown_timeout: Duration,
    /// Where to learn about this machine, tried in order: imds, kubernetes, metadata-labeler
    #[arg(long, default_value = "imds,kubernetes", value_name = "LIST")]
    pub(super) metadata_sources: Vec<String>,
    /// Verbosity of the log: 2 for operators, 4 shows each request, 7 everything
    #[arg(short = 'v', long = "v", default_value_t = 0, value_name = "LEVEL",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(i32::MAX)))]
    pub(super) verbosity: u32,
    /// Shape of the log lines
    #[arg(long, default_value = "text", value_name = "FORMAT")]
    pub(super) logging_format: Format,
    /// Print the version as JSON and exit
    #[arg(long)]
    pub(super) version: bool,
    /// Path of a kubeconfig file [default: the account of the pod]
    #[arg(long, default_value = "", value_name = "PATH", hide_default_value = true)]
    pub(super) kubeconfig: String,
    /// Serve them over TLS with this certificate and those that signed it (PEM); read again when it changes
    #[arg(long, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) metrics_cert_file: String,
    /// Private key of that certificate (PEM)
    #[arg(long, default_value = "", value_name = "FILE", hide_default_value = true)]
    pub(super) metrics_key_file: String,
    /// Export traces of RPCs and calls to AWS over OTLP, as the OTEL_* variables say
    #[arg(long)]
    pub(super) enable_otel_tracing: bool,
    /// More lines of some source files of this driver, by patterns of their names without .rs; text lines only
    #[arg(long, default_value = "", value_name = "PATTERN=N,…", hide_default_value = true)]
    pub(super) vmodule: String,
    #[command(flatten)]
    pub(super) log: LogFlags,
    /// Words that are no flags have no meaning and are ignored, as the reference driver does.
    #[arg(hide = true)]
    pub(super) ignored: Vec<String>,
}

/// Flags of the reference driver's log library.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Logging flags without effect, or refused when set")]
pub(super) struct LogFlags {
    /// Deprecated: everything goes to standard error
    #[arg(long)]
    pub(super) logtostderr: bool,
    /// Lines are written at once
    #[arg(long, default_value = DEFAULT_FLUSH, value_name = "DURATION", value_parser = values::positive_duration)]
    pub(super) log_flush_frequency: Duration,
    /// Refused when true
    #[arg(long)]
    pub(super) log_text_split_stream: bool,
    /// Refused when true
    #[arg(long)]
    pub(super) log_json_split_stream: bool,
    /// Refused when not 0
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = values::size)]
    pub(super) log_text_info_buffer_size: String,
    /// Refused when not 0
    #[arg(long, default_value = "0", value_name = "SIZE", value_parser = values::size)]
    pub(super) log_json_info_buffer_size: String,
}

/// Shape of the log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum Format {
    Text,
    Json,
}

/// Flags of modes that call AWS.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "AWS flags")]
pub(super) struct AwsFlags {
    /// Added to the user agent of calls to AWS
    #[arg(long, default_value = "", value_name = "TEXT", hide_default_value = true)]
    pub(super) user_agent_extra: String,
    /// Log each call to AWS with its bodies
    #[arg(long)]
    pub(super) aws_sdk_debug_log: bool,
}

/// Flags of modes with a controller service.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Controller flags")]
pub(super) struct ControllerFlags {
    /// Tags for everything that is created; may be repeated
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(super) extra_tags: Vec<String>,
    /// Deprecated: use --extra-tags, which wins where both name a key
    #[arg(long, value_name = "KEY=VALUE,…")]
    pub(super) extra_volume_tags: Vec<String>,
    /// Id of the cluster, for tags of ownership
    #[arg(long, default_value = "", value_name = "ID", hide_default_value = true)]
    pub(super) k8s_tag_cluster_id: String,
    /// Leave out a tag that EC2 would refuse, with a warning, instead of failing the request
    #[arg(long)]
    pub(super) warn_on_invalid_tag: bool,
    /// Questions to EC2 about several objects travel in one call (the default); false: each alone, at once
    #[arg(long, default_value = "true")]
    pub(super) batching: bool,
    /// How long changes of one volume (size, type, IOPS, throughput) are gathered to become one call to EC2
    #[arg(long, default_value = "2s", value_name = "DURATION", value_parser = values::positive_duration)]
    pub(super) modify_volume_request_handler_timeout: Duration,
    /// Also serve the metrics of calls to EC2 under the names of the in-tree cloud provider
    #[arg(long)]
    pub(super) deprecated_metrics: bool,
    /// Publish handles of node-local volumes, local-ebs://DEVICE
    #[arg(long)]
    pub(super) enable_node_local_volumes: bool,
}

/// Flags of modes with a node service.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Node flags")]
pub(super) struct NodeFlags {
    /// How many volumes this node takes; -1: found out from the instance type
    #[arg(long, default_value = "-1", value_name = "COUNT", allow_hyphen_values = true, value_parser = values::integer)]
    pub(super) volume_attach_limit: i64,
    /// How many attachments are kept free for others; -1: those that were there at the start
    #[arg(long, default_value = "-1", value_name = "COUNT", allow_hyphen_values = true, value_parser = values::integer)]
    pub(super) reserved_volume_attachments: i64,
    /// Directory of records that must survive a restart [default: the directory of the CSI socket]
    #[arg(long, value_name = "PATH")]
    pub(super) state_dir: Option<PathBuf>,
    /// Format xfs so that kernels up to 5.4 can mount it
    #[arg(long)]
    pub(super) legacy_xfs: bool,
    /// Mounts below it count as this driver's in the metrics of disks, besides those that it made itself
    #[arg(long, default_value = "", value_name = "PATH", hide_default_value = true)]
    pub(super) csi_mount_point_prefix: String,
    /// On Windows: the driver is a process of the host, and works without csi-proxy
    #[arg(long)]
    pub(super) windows_host_process: bool,
    /// On Windows over another project's csi-proxy: format disks on which it recognises no file system, though it cannot tell whether they are blank
    #[arg(long)]
    pub(super) format_over_csi_proxy: bool,
}
