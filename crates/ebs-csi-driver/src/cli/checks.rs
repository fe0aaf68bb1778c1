//! From flags to settings: what is wrong is refused, what has no effect is said.

use std::path::PathBuf;
use std::time::Duration;

use ebs_driver::config::{DriverConfig, DriverOptions, Mode};
use ebs_driver::server::Endpoint;
use ebs_driver::status::chain;
use ebs_metadata::LimitFlags;
use ebs_telemetry::{HttpEndpoint, LogConfig, LogFormat};
use ebs_types::DriverName;

use super::flags::{CommonFlags, DEFAULT_FLUSH, Format, NodeFlags};
use super::values;
use super::{Flags, HookSettings, Job, LabelerSettings, NodeSettings, Refused, Role, Settings};

/// The places where the reference driver may learn about its machine.
const METADATA_SOURCES: [&str; 3] = ["imds", "kubernetes", "metadata-labeler"];

pub(super) fn log(common: &CommonFlags, rust_log: Option<String>) -> Result<LogConfig, Refused> {
    let log = &common.log;
    if common.logging_format == Format::Json && !log.vmodule.is_empty() {
        return Err(Refused::new("--vmodule works with --logging-format=text only"));
    }
    if log.log_text_split_stream || log.log_json_split_stream {
        return Err(Refused::new("split log streams are not available: everything goes to standard error"));
    }
    if log.log_text_info_buffer_size != "0" || log.log_json_info_buffer_size != "0" {
        return Err(Refused::new("log buffers are not available: every line is written at once"));
    }
    let format = match common.logging_format {
        Format::Text => LogFormat::Text,
        Format::Json => LogFormat::Json,
    };
    Ok(LogConfig { format, verbosity: common.verbosity, directives: rust_log })
}

pub(super) fn job(flags: &Flags, version: &str) -> Result<Job, Refused> {
    // What a mode does not use is checked all the same: a mistake shows where it was made.
    let http = http(&flags.common)?;
    let imds_allowed = imds_allowed(&flags.common.metadata_sources)?;
    let job = match flags.role {
        Role::Driver(mode) => {
            let driver = driver_options(flags, mode, version);
            let driver = DriverConfig::new(&driver).map_err(|error| Refused::new(chain(&error)))?;
            Job::Serve(Box::new(settings(flags, driver, http, imds_allowed)?))
        }
        Role::Labeler => Job::LabelNodes(labeler(flags, http)),
        Role::PreStopHook => {
            Job::AwaitDetachments(HookSettings { driver: DriverName::default(), kubeconfig: kubeconfig(flags) })
        }
    };
    for note in without_effect(flags) {
        tracing::warn!("{note}");
    }
    Ok(job)
}

fn settings(
    flags: &Flags,
    driver: DriverConfig,
    http: Option<HttpEndpoint>,
    imds_allowed: bool,
) -> Result<Settings, Refused> {
    let node = flags.node.as_ref().map(|node| node_settings(node, &driver.endpoint)).transpose()?;
    let (user_agent_extra, log_aws_bodies) = aws(flags);
    Ok(Settings {
        driver,
        http,
        batching: flags.controller.as_ref().is_none_or(|controller| controller.batching),
        modification_window: modification_window(flags),
        node_local_volumes: flags.controller.as_ref().is_some_and(|controller| controller.enable_node_local_volumes),
        deprecated_metrics: flags.controller.as_ref().is_some_and(|controller| controller.deprecated_metrics),
        imds_allowed,
        log_aws_bodies,
        user_agent_extra,
        shutdown_timeout: flags.common.shutdown_timeout,
        kubeconfig: kubeconfig(flags),
        node,
    })
}

fn labeler(flags: &Flags, http: Option<HttpEndpoint>) -> LabelerSettings {
    let (user_agent_extra, log_aws_bodies) = aws(flags);
    LabelerSettings {
        driver: DriverName::default(),
        http,
        kubeconfig: kubeconfig(flags),
        user_agent_extra,
        log_aws_bodies,
        shutdown_timeout: flags.common.shutdown_timeout,
    }
}

/// Suffix of the user agent, and whether bodies are logged.
fn aws(flags: &Flags) -> (Option<String>, bool) {
    let extra = flags.aws.as_ref().map(|aws| aws.user_agent_extra.clone()).filter(|extra| !extra.is_empty());
    (extra, flags.aws.as_ref().is_some_and(|aws| aws.aws_sdk_debug_log))
}

fn kubeconfig(flags: &Flags) -> Option<PathBuf> {
    Some(&flags.common.kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from)
}

/// Nothing is gathered where there is no controller.
fn modification_window(flags: &Flags) -> Duration {
    flags.controller.as_ref().map_or(Duration::ZERO, |controller| controller.modify_volume_request_handler_timeout)
}

fn driver_options(flags: &Flags, mode: Mode, version: &str) -> DriverOptions {
    let controller = flags.controller.as_ref();
    DriverOptions {
        mode,
        version: version.to_owned(),
        endpoint: flags.common.endpoint.clone(),
        endpoint_mode: flags.common.endpoint_mode.clone(),
        extra_tags: controller.map(|flags| flags.extra_tags.clone()).unwrap_or_default(),
        extra_volume_tags: controller.map(|flags| flags.extra_volume_tags.clone()).unwrap_or_default(),
        cluster_id: controller.map(|flags| flags.k8s_tag_cluster_id.clone()).unwrap_or_default(),
        warn_on_invalid_tag: controller.is_some_and(|flags| flags.warn_on_invalid_tag),
    }
}

/// TLS that was asked for is never left out silently.
fn http(common: &CommonFlags) -> Result<Option<HttpEndpoint>, Refused> {
    if !common.metrics_cert_file.is_empty() || !common.metrics_key_file.is_empty() {
        return Err(Refused::new(
            "--metrics-cert-file and --metrics-key-file are not available yet: leave them out and serve metrics \
             without TLS on an address that only your monitoring reaches, or leave out --http-endpoint",
        ));
    }
    if common.http_endpoint.is_empty() {
        return Ok(None);
    }
    common.http_endpoint.parse().map(Some).map_err(|error| Refused::new(format!("--http-endpoint: {error}")))
}

fn imds_allowed(lists: &[String]) -> Result<bool, Refused> {
    let entries = lists.iter().flat_map(|list| list.split(',')).map(|entry| entry.trim().to_lowercase());
    let entries: Vec<String> = entries.collect();
    if let Some(bad) = entries.iter().find(|entry| !METADATA_SOURCES.contains(&entry.as_str())) {
        let known = METADATA_SOURCES.join(", ");
        return Err(Refused::new(format!("--metadata-sources has {bad:?}, which is not a source: use {known}")));
    }
    Ok(entries.iter().any(|entry| entry == "imds"))
}

fn node_settings(node: &NodeFlags, endpoint: &Endpoint) -> Result<NodeSettings, Refused> {
    let limits = LimitFlags::parse(node.volume_attach_limit, node.reserved_volume_attachments)
        .map_err(|error| Refused::new(chain(&error)))?;
    let state_dir = node.state_dir.clone().or_else(|| beside(endpoint)).ok_or_else(|| {
        Refused::new(
            "--state-dir is required when --endpoint is not a unix socket: give a directory that survives a restart",
        )
    })?;
    if !state_dir.is_absolute() {
        return Err(Refused::new(format!("--state-dir is {}, but must be an absolute path", state_dir.display())));
    }
    Ok(NodeSettings { limits, legacy_xfs: node.legacy_xfs, state_dir })
}

fn beside(endpoint: &Endpoint) -> Option<PathBuf> {
    match endpoint {
        Endpoint::Unix(path) => path.parent().map(PathBuf::from),
        Endpoint::Tcp(_) => None,
    }
}

/// A line for each flag that is given and accepted, but changes nothing.
pub(super) fn without_effect(flags: &Flags) -> Vec<String> {
    let common = &flags.common;
    let flush_is_set = values::duration(DEFAULT_FLUSH).is_ok_and(|usual| usual != common.log.log_flush_frequency);
    let mut given = vec![
        (common.enable_otel_tracing, "--enable-otel-tracing is not available yet: no traces are written"),
        (!common.kubeconfig.is_empty(), "--kubeconfig is not available yet: the driver works without Kubernetes"),
        (common.log.logtostderr, "--logtostderr has no effect: everything goes to standard error anyway"),
        (flush_is_set, "--log-flush-frequency has no effect: every line is written at once"),
        (!common.log.vmodule.is_empty(), "--vmodule has no effect: use RUST_LOG, such as RUST_LOG=ebs_driver=trace"),
    ];
    if let Some(node) = &flags.node {
        given.push((node.windows_host_process, "--windows-host-process has no effect: this is not Windows"));
        let no_disks = "--csi-mount-point-prefix is not available yet: no metrics of disks are served";
        given.push((!node.csi_mount_point_prefix.is_empty(), no_disks));
    }
    if let Role::Driver(_) = flags.role {
        let is_tcp = matches!(Endpoint::parse(&common.endpoint), Ok(Endpoint::Tcp(_)));
        let has_no_mode = "--endpoint-mode has no effect: --endpoint is no unix socket";
        given.push((is_tcp && flags.is_given("endpoint_mode"), has_no_mode));
    }
    let ignored = common.ignored.iter().map(|word| {
        format!("argument {word:?} is ignored; a boolean flag takes its value after an equals sign: --flag=false")
    });
    let notes = given.into_iter().filter(|(given, _)| *given).map(|(_, note)| note.to_owned());
    notes.chain(ignored).chain(beside_the_role(flags)).collect()
}

/// A line for each flag of all modes that is given to one which has nothing to do with it.
fn beside_the_role(flags: &Flags) -> impl Iterator<Item = String> {
    let (idle, reason): (&[&str], _) = match flags.role {
        Role::Driver(_) => (&[], ""),
        Role::Labeler => (
            &["endpoint", "endpoint_mode", "metadata_sources", "enable_otel_tracing"],
            "in mode metadataLabeler, which serves no CSI and needs no metadata of its own machine",
        ),
        Role::PreStopHook => (
            &[
                "endpoint",
                "endpoint_mode",
                "http_endpoint",
                "metrics_cert_file",
                "metrics_key_file",
                "shutdown_timeout",
                "metadata_sources",
                "enable_otel_tracing",
            ],
            "in mode pre-stop-hook, which serves nothing and asks Kubernetes alone",
        ),
    };
    let given = idle.iter().filter(|flag| flags.is_given(flag));
    given.map(move |flag| format!("--{} has no effect {reason}", flag.replace('_', "-")))
}
