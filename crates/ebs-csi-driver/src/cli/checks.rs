//! From flags to settings: what is wrong is refused, what has no effect is said.

use std::path::{Path, PathBuf};
use std::time::Duration;

use ebs_driver::config::{DriverConfig, DriverOptions};
use ebs_driver::server::Endpoint;
use ebs_driver::status::chain;
use ebs_metadata::LimitFlags;
use ebs_telemetry::{HttpEndpoint, LogConfig, LogFormat, TlsFiles};

use super::flags::{CommonFlags, DEFAULT_FLUSH, Format, NodeFlags};
use super::values;
use super::{Flags, NodeSettings, Refused, Settings};

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

pub(super) fn settings(flags: &Flags, version: &str) -> Result<Settings, Refused> {
    let http = http(&flags.common)?;
    let http_tls = http_tls(&flags.common)?;
    let imds_allowed = imds_allowed(&flags.common.metadata_sources)?;
    let driver = DriverConfig::new(&driver_options(flags, version)).map_err(|error| Refused::new(chain(&error)))?;
    let node = flags.node.as_ref().map(|node| node_settings(node, &driver.endpoint)).transpose()?;
    for note in without_effect(flags) {
        tracing::warn!("{note}");
    }
    Ok(Settings {
        driver,
        http,
        http_tls,
        batching: flags.controller.as_ref().is_none_or(|controller| controller.batching),
        modification_window: modification_window(flags),
        node_local_volumes: flags.controller.as_ref().is_some_and(|controller| controller.enable_node_local_volumes),
        deprecated_metrics: flags.controller.as_ref().is_some_and(|controller| controller.deprecated_metrics),
        imds_allowed,
        log_aws_bodies: flags.aws.as_ref().is_some_and(|aws| aws.aws_sdk_debug_log),
        user_agent_extra: flags.aws.as_ref().map(|aws| aws.user_agent_extra.clone()).filter(|extra| !extra.is_empty()),
        shutdown_timeout: flags.common.shutdown_timeout,
        node,
    })
}

/// Nothing is gathered where there is no controller.
fn modification_window(flags: &Flags) -> Duration {
    flags.controller.as_ref().map_or(Duration::ZERO, |controller| controller.modify_volume_request_handler_timeout)
}

fn driver_options(flags: &Flags, version: &str) -> DriverOptions {
    let controller = flags.controller.as_ref();
    DriverOptions {
        mode: flags.mode,
        version: version.to_owned(),
        endpoint: flags.common.endpoint.clone(),
        endpoint_mode: flags.common.endpoint_mode.clone(),
        extra_tags: controller.map(|flags| flags.extra_tags.clone()).unwrap_or_default(),
        extra_volume_tags: controller.map(|flags| flags.extra_volume_tags.clone()).unwrap_or_default(),
        cluster_id: controller.map(|flags| flags.k8s_tag_cluster_id.clone()).unwrap_or_default(),
        warn_on_invalid_tag: controller.is_some_and(|flags| flags.warn_on_invalid_tag),
    }
}

fn http(common: &CommonFlags) -> Result<Option<HttpEndpoint>, Refused> {
    if common.http_endpoint.is_empty() {
        return Ok(None);
    }
    common.http_endpoint.parse().map(Some).map_err(|error| Refused::new(format!("--http-endpoint: {error}")))
}

/// TLS that was asked for is never left out silently: certificate and key need each other, and a page to be served.
fn http_tls(common: &CommonFlags) -> Result<Option<TlsFiles>, Refused> {
    let file = |path: &str| Some(path).filter(|path| !path.is_empty()).map(PathBuf::from);
    let needs = |given: &str, missing: &str| Err(Refused::new(format!("{given} needs {missing}")));
    match (file(&common.metrics_cert_file), file(&common.metrics_key_file)) {
        (None, None) => Ok(None),
        (Some(_), None) => needs("--metrics-cert-file", "--metrics-key-file: the private key of the certificate"),
        (None, Some(_)) => needs("--metrics-key-file", "--metrics-cert-file: the certificate of the key"),
        (Some(_), Some(_)) if common.http_endpoint.is_empty() => {
            needs("--metrics-cert-file", "--http-endpoint: without it no metrics are served")
        }
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
    }
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
    let mounts_below = Some(PathBuf::from(&node.csi_mount_point_prefix)).filter(|prefix| prefix.is_absolute());
    Ok(NodeSettings { limits, legacy_xfs: node.legacy_xfs, state_dir, mounts_below })
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
        let prefix = &node.csi_mount_point_prefix;
        let relative = "--csi-mount-point-prefix has no effect: it is no absolute path, so no mount is below it";
        given.push((!prefix.is_empty() && !Path::new(prefix).is_absolute(), relative));
    }
    let ignored = common.ignored.iter().map(|word| {
        format!("argument {word:?} is ignored; a boolean flag takes its value after an equals sign: --flag=false")
    });
    given.into_iter().filter(|(given, _)| *given).map(|(_, note)| note.to_owned()).chain(ignored).collect()
}
