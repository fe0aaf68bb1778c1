//! Turns flags into settings: rejects invalid flags, and warns about flags without effect.

use std::path::{Path, PathBuf};

use component_base::http::HttpEndpoint;
use ebs_driver::config::{self, ConfigError, Mode};
use ebs_driver::controller::ControllerOptions;
use ebs_driver::server::Endpoint;
use ebs_driver::status::chain;
use ebs_driver::tags::TagPolicy;
use ebs_ec2::DriverName;
use ebs_metadata::{LimitFlags, SourceKind};
use ebs_telemetry::{LogConfig, TlsFiles};

use super::flags::{CommonFlags, ControllerFlags, NodeFlags};
use super::system::Platform;
use super::{DriverSettings, Flags, HookSettings, HttpSettings, Job, NodeSettings, Refused, Role, Settings};

pub(super) fn log(common: &CommonFlags, directives: Option<String>) -> Result<LogConfig, Refused> {
    let settings = common.log.settings(common.logging_format, common.verbosity, &common.vmodule);
    Ok(LogConfig { settings: settings.map_err(Refused::new)?, directives })
}

pub(super) fn job(flags: &Flags, platform: Platform) -> Result<Job, Refused> {
    // Accept `--version` in every mode: it only prints the version, so the platform need not support the mode.
    if let Some(reason) = platform.refuses(flags.role).filter(|_| !flags.common.version) {
        return Err(Refused::new(reason));
    }
    let common = common(flags)?;
    let job = match flags.role {
        Role::Driver(mode) => Job::Serve(Box::new(driver(flags, mode, common, platform)?)),
        Role::Labeler => Job::LabelNodes(common),
        Role::PreStopHook => {
            Job::AwaitDetachments(HookSettings { driver: common.driver, kubeconfig: common.kubeconfig })
        }
    };
    for note in without_effect(flags, platform) {
        tracing::warn!("{note}");
    }
    Ok(job)
}

/// Reads the common flags. Checks even values that the mode does not use, so that mistakes in them are reported.
fn common(flags: &Flags) -> Result<Settings, Refused> {
    let CommonFlags { kubeconfig, shutdown_timeout, .. } = &flags.common;
    let user_agent_extra = flags.aws.as_ref().map(|aws| aws.user_agent_extra.clone());
    Ok(Settings {
        driver: DriverName::default(),
        http: http(&flags.common)?,
        health: health(&flags.common)?,
        kubeconfig: Some(kubeconfig).filter(|path| !path.is_empty()).map(PathBuf::from),
        metadata_sources: metadata_sources(&flags.common.metadata_sources)?,
        user_agent_extra: user_agent_extra.filter(|extra| !extra.is_empty()),
        log_aws_bodies: flags.aws.as_ref().is_some_and(|aws| aws.aws_sdk_debug_log),
        shutdown_timeout: *shutdown_timeout,
    })
}

fn driver(flags: &Flags, mode: Mode, common: Settings, platform: Platform) -> Result<DriverSettings, Refused> {
    let invalid = |error| Refused::new(chain(&error));
    let endpoint = Endpoint::parse(&flags.common.endpoint).map_err(ConfigError::Endpoint).map_err(invalid)?;
    let endpoint_mode = config::endpoint_mode(&flags.common.endpoint_mode).map_err(invalid)?;
    let controller = flags.controller.as_ref().map(controller).transpose().map_err(invalid)?;
    Ok(DriverSettings {
        common,
        mode,
        node: flags.node.as_ref().map(|node| node_settings(node, &endpoint, platform)).transpose()?,
        endpoint,
        endpoint_mode,
        controller: controller.unwrap_or_default(),
        batching: flags.controller.as_ref().is_none_or(|controller| controller.batching),
        deprecated_metrics: flags.controller.as_ref().is_some_and(|controller| controller.deprecated_metrics),
    })
}

fn controller(flags: &ControllerFlags) -> Result<ControllerOptions, ConfigError> {
    let tags = TagPolicy {
        cluster_id: Some(flags.k8s_tag_cluster_id.clone()).filter(|id| !id.is_empty()),
        extra: config::extra_tags(&flags.extra_tags, &flags.extra_volume_tags)?,
        warn_on_invalid: flags.warn_on_invalid_tag,
        ..TagPolicy::default()
    };
    tags.check_extra().map_err(ConfigError::Tag)?;
    Ok(ControllerOptions {
        tags,
        node_local_volumes: flags.enable_node_local_volumes,
        modification_window: flags.modify_volume_request_handler_timeout,
        ..ControllerOptions::default()
    })
}

fn http(common: &CommonFlags) -> Result<Option<HttpSettings>, Refused> {
    let tls = http_tls(common)?;
    if common.http_endpoint.is_empty() {
        return Ok(None);
    }
    let endpoint = common.http_endpoint.parse();
    let endpoint = endpoint.map_err(|error| Refused::new(format!("--http-endpoint: {error}")))?;
    Ok(Some(HttpSettings { endpoint, tls }))
}

fn health(common: &CommonFlags) -> Result<Option<HttpEndpoint>, Refused> {
    let CommonFlags { health_endpoint, http_endpoint, .. } = common;
    if health_endpoint.is_empty() {
        return Ok(None);
    }
    // The kernel chooses another port each time that port 0 is bound.
    if health_endpoint == http_endpoint && !health_endpoint.ends_with(":0") {
        return Err(Refused::new("--health-endpoint and --http-endpoint have the same address; set different ports"));
    }
    let endpoint = health_endpoint.parse();
    endpoint.map(Some).map_err(|error| Refused::new(format!("--health-endpoint: {error}")))
}

/// Rejects incomplete TLS settings instead of serving in clear text.
fn http_tls(common: &CommonFlags) -> Result<Option<TlsFiles>, Refused> {
    let file = |path: &str| Some(path).filter(|path| !path.is_empty()).map(PathBuf::from);
    let needs = |given: &str, missing: &str| Err(Refused::new(format!("{given} needs {missing}")));
    match (file(&common.metrics_cert_file), file(&common.metrics_key_file)) {
        (None, None) => Ok(None),
        (Some(_), None) => needs("--metrics-cert-file", "--metrics-key-file, the private key of the certificate"),
        (None, Some(_)) => needs("--metrics-key-file", "--metrics-cert-file, the certificate of the key"),
        (Some(_), Some(_)) if common.http_endpoint.is_empty() => {
            needs("--metrics-cert-file", "--http-endpoint, without which no metrics are served")
        }
        (Some(certificate), Some(key)) => Ok(Some(TlsFiles { certificate, key })),
    }
}

/// Parses the lists. Accepts an empty result: only a process that needs a source rejects it later.
fn metadata_sources(lists: &[String]) -> Result<Vec<SourceKind>, Refused> {
    if lists.iter().all(String::is_empty) {
        return Ok(Vec::new());
    }
    let parse = |entry: &str| entry.parse().map_err(|error| Refused::new(format!("--metadata-sources: {error}")));
    lists.iter().flat_map(|list| list.split(',')).map(parse).collect()
}

fn node_settings(node: &NodeFlags, endpoint: &Endpoint, platform: Platform) -> Result<NodeSettings, Refused> {
    let limits = LimitFlags::parse(node.volume_attach_limit, node.reserved_volume_attachments)
        .map_err(|error| Refused::new(chain(&error)))?;
    let state_dir = match platform {
        Platform::Linux => Some(state_dir(node, endpoint)?),
        // On Windows, the driver keeps no records: Windows stores all state that must survive a restart.
        Platform::Windows => None,
    };
    let mounts_below = Some(PathBuf::from(&node.csi_mount_point_prefix)).filter(|prefix| prefix.is_absolute());
    let (host_process, format_over_proxy) = (node.windows_host_process, node.format_over_csi_proxy);
    Ok(NodeSettings { limits, legacy_xfs: node.legacy_xfs, state_dir, mounts_below, host_process, format_over_proxy })
}

fn state_dir(node: &NodeFlags, endpoint: &Endpoint) -> Result<PathBuf, Refused> {
    let state_dir = node.state_dir.clone().or_else(|| beside(endpoint)).ok_or_else(|| {
        Refused::new(
            "--state-dir is required when --endpoint is not a unix socket; set it to a directory that survives a restart",
        )
    })?;
    if !state_dir.is_absolute() {
        return Err(Refused::new(format!("--state-dir is {}, but must be an absolute path", state_dir.display())));
    }
    Ok(state_dir)
}

fn beside(endpoint: &Endpoint) -> Option<PathBuf> {
    match endpoint {
        Endpoint::Unix(path) => path.parent().map(PathBuf::from),
        Endpoint::Tcp(_) => None,
    }
}

/// Returns a warning for each flag that is given and accepted but changes nothing.
pub(super) fn without_effect(flags: &Flags, platform: Platform) -> Vec<String> {
    let common = &flags.common;
    let mut given = vec![(common.logtostderr, "--logtostderr has no effect: all lines go to standard error")];
    given.extend(common.log.without_effect().map(|note| (true, note)));
    if let Some(node) = &flags.node {
        let (is_windows, is_linux) = (platform == Platform::Windows, platform == Platform::Linux);
        let host_process = node.windows_host_process && is_linux;
        given.push((host_process, "--windows-host-process has no effect: the driver does not run on Windows"));
        let over_proxy = node.format_over_csi_proxy && (is_linux || node.windows_host_process);
        given.push((over_proxy, "--format-over-csi-proxy has no effect: the driver reads disks without csi-proxy"));
        let state_dir = is_windows && node.state_dir.is_some();
        given.push((state_dir, "--state-dir has no effect: on Windows the driver stores no records"));
        let legacy_xfs = is_windows && node.legacy_xfs;
        given.push((legacy_xfs, "--legacy-xfs has no effect: on Windows the driver formats volumes as NTFS"));
        let prefix = &node.csi_mount_point_prefix;
        let relative = "--csi-mount-point-prefix has no effect: it is not an absolute path, so no mount is below it";
        given.push((!prefix.is_empty() && !Path::new(prefix).is_absolute(), relative));
    }
    if let Role::Driver(_) = flags.role {
        let is_tcp = matches!(Endpoint::parse(&common.endpoint), Ok(Endpoint::Tcp(_)));
        let has_no_mode = "--endpoint-mode has no effect: --endpoint is not a unix socket";
        given.push((is_tcp && flags.given.contains("endpoint_mode"), has_no_mode));
        let is_inherited = platform == Platform::Windows && !is_tcp && flags.given.contains("endpoint_mode");
        given.push((
            is_inherited,
            "--endpoint-mode has no effect: on Windows the socket inherits the access rights of its directory",
        ));
    }
    let ignored = common.ignored.iter().map(|word| {
        format!("argument {word:?} is ignored; a boolean flag takes its value after an equals sign: --flag=false")
    });
    let notes = given.into_iter().filter(|(given, _)| *given).map(|(_, note)| note.to_owned());
    notes.chain(ignored).chain(beside_the_role(flags)).collect()
}

/// Returns a warning for each common flag that has no effect in this mode.
fn beside_the_role(flags: &Flags) -> impl Iterator<Item = String> {
    let (idle, reason): (&[&str], _) = match flags.role {
        Role::Driver(_) => (&[], ""),
        Role::Labeler => {
            (&["endpoint", "endpoint_mode", "health_endpoint"], "in mode metadataLabeler, which serves no CSI requests")
        }
        Role::PreStopHook => (
            &[
                "endpoint",
                "endpoint_mode",
                "health_endpoint",
                "http_endpoint",
                "metrics_cert_file",
                "metrics_key_file",
                "shutdown_timeout",
                "metadata_sources",
                "enable_otel_tracing",
            ],
            "in mode pre-stop-hook, which serves nothing and calls only the Kubernetes API",
        ),
    };
    let given = idle.iter().filter(|flag| flags.given.contains(**flag));
    given.map(move |flag| format!("--{} has no effect {reason}", flag.replace('_', "-")))
}
