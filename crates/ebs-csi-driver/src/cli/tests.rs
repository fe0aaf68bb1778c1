mod environment;
mod every_flag;
mod options_page;
mod product_source;
mod windows;

use super::*;

fn read(line: &str) -> Result<Flags, Refused> {
    Flags::read(std::iter::once(NAME).chain(line.split_whitespace()).map(OsString::from))
}

fn job(line: &str) -> Result<Job, Refused> {
    let flags = read(line)?;
    flags.log(None)?;
    flags.check("v0")
}

/// Settings of a mode that serves CSI.
fn checked(line: &str) -> Result<Settings, Refused> {
    match job(line)? {
        Job::Serve(settings) => Ok(*settings),
        other => panic!("{line} serves no CSI: {other:?}"),
    }
}

#[track_caller]
fn refused(line: &str, because: &str) {
    let refused = checked(line).expect_err(line);
    let message = refused.to_string();
    assert!(message.contains(because), "{line}: {message}");
    assert!(refused.0.use_stderr(), "{line} must be a usage error");
}

fn help(mode: &str) -> String {
    let text = read(&format!("{mode} --help")).unwrap_err().to_string();
    text.lines().map(str::trim_end).collect::<Vec<_>>().join("\n")
}

#[test]
fn help_of_all_is_as_reviewed() {
    insta::assert_snapshot!(help("all"));
}

#[test]
fn help_of_node_is_as_reviewed() {
    insta::assert_snapshot!(help("node"));
}

#[test]
fn help_of_controller_is_as_reviewed() {
    insta::assert_snapshot!(help("controller"));
}

#[test]
fn help_of_metadata_labeler_is_as_reviewed() {
    insta::assert_snapshot!(help("metadataLabeler"));
}

#[test]
fn help_of_pre_stop_hook_is_as_reviewed() {
    insta::assert_snapshot!(help("pre-stop-hook"));
}

#[test]
fn missing_mode_means_all() {
    for line in ["", "--v=2", "-v 2", "all"] {
        assert_eq!(read(line).expect(line).role, Role::Driver(Mode::All));
    }
    assert_eq!(read("controller").unwrap().role, Role::Driver(Mode::Controller));
    assert_eq!(read("node").unwrap().role, Role::Driver(Mode::Node));
    assert_eq!(read("metadataLabeler").unwrap().role, Role::Labeler);
    assert_eq!(read("pre-stop-hook").unwrap().role, Role::PreStopHook);
    assert!(Flags::read([]).is_ok());
}

#[test]
fn unknown_mode_is_usage_error() {
    refused("controler", "controler");
    refused("help", "help");
    refused("metadatalabeler", "metadatalabeler");
}

/// The labeler and the hook take the flags of all modes, the labeler also takes the AWS flags, and neither serves CSI.
#[test]
fn labeler_and_hook_do_not_serve_csi() {
    let Job::LabelNodes(labeler) = job("metadataLabeler --user-agent-extra=helm --v=2 --http-endpoint=:1").unwrap()
    else {
        panic!("not the labeler's");
    };
    assert_eq!(labeler.user_agent_extra.as_deref(), Some("helm"));
    assert!(labeler.http.is_some() && labeler.kubeconfig.is_none());
    let Job::AwaitDetachments(hook) = job("pre-stop-hook --kubeconfig=/k").unwrap() else { panic!("not the hook's") };
    assert_eq!(hook.kubeconfig.as_deref(), Some(std::path::Path::new("/k")));
    refused("pre-stop-hook --user-agent-extra=x", "--user-agent-extra");
    refused("metadataLabeler --extra-tags=a=b", "--extra-tags");
}

/// A flag of another mode is rejected like an unknown flag.
#[test]
fn flag_of_another_mode_is_usage_error() {
    refused("node --extra-tags=a=b", "--extra-tags");
    refused("node --aws-sdk-debug-log", "--aws-sdk-debug-log");
    refused("controller --volume-attach-limit=9", "--volume-attach-limit");
    refused("controller --legacy-xfs", "--legacy-xfs");
    refused("all --no-such-flag", "--no-such-flag");
    for line in ["all -v=2", "all -v2", "all -v 2", "all --v 2", "all --v=2"] {
        assert_eq!(read(line).expect(line).common.verbosity, 2);
    }
}

#[test]
fn error_of_misplaced_flag_names_its_modes() {
    for (line, modes) in [
        ("node --extra-tags=a=b", "all, controller"),
        ("node --aws-sdk-debug-log", "all, controller, metadataLabeler"),
        ("controller --legacy-xfs=true", "all, node"),
        ("pre-stop-hook --volume-attach-limit 9", "all, node"),
        ("metadataLabeler --batching", "all, controller"),
    ] {
        let flag = line.split([' ', '=']).nth(1).unwrap();
        let message = read(line).expect_err(line).to_string();
        assert!(message.contains(&format!("{flag} is a flag of the modes {modes}")), "{line}: {message}");
        assert!(!message.contains("-- "), "{line}: {message}");
    }
    let message = read("node --no-such-flag").expect_err("unknown").to_string();
    assert!(message.contains("--no-such-flag") && !message.contains("is a flag of"), "{message}");
}

#[test]
fn defaults_equal_reference_except_batching() {
    let flags = read("all").unwrap();
    assert_eq!(flags.common.endpoint, "unix://tmp/csi.sock");
    assert_eq!(flags.common.endpoint_mode, "0600");
    assert_eq!(flags.common.metadata_sources, ["imds,kubernetes"]);
    assert_eq!(flags.common.verbosity, 0);
    assert_eq!(flags.common.shutdown_timeout, Duration::from_secs(20));
    let controller = flags.controller.unwrap();
    assert_eq!(controller.modify_volume_request_handler_timeout, Duration::from_secs(2));
    assert!(controller.batching, "as its documentation says, not as the reference's binary has it");
    assert!(!controller.warn_on_invalid_tag);
    let node = flags.node.unwrap();
    assert_eq!((node.volume_attach_limit, node.reserved_volume_attachments), (-1, -1));
    let settings = checked("all").unwrap();
    assert_eq!(settings.driver.endpoint.to_string(), "unix:///tmp/csi.sock");
    assert_eq!(settings.node.unwrap().state_dir.as_deref(), Some(std::path::Path::new("/tmp")));
    assert!(settings.http.is_none());
}

/// Booleans accept every Go spelling.
#[test]
fn boolean_takes_value_only_after_equals_sign() {
    let batching = |line: &str| read(line).expect(line).controller.unwrap().batching;
    assert!(batching("all") && batching("all --batching"));
    assert!(batching("all --batching=T"));
    assert!(!batching("all --batching=false"));
    assert!(!batching("all --batching --batching=0"));
    assert!(batching("all --batching false"), "a word after a bare boolean is no value");
    refused("all --batching=yes", "--batching");
}

#[test]
fn repeated_flag_overrides_and_repeated_map_merges() {
    let flags = read("all --v=1 --v=4 --extra-tags=a=1 --extra-tags=b=2").unwrap();
    assert_eq!(flags.common.verbosity, 4);
    assert_eq!(flags.controller.unwrap().extra_tags, ["a=1", "b=2"]);
}

#[test]
fn value_may_be_next_argument_and_negative() {
    let flags = read("node --endpoint unix:///x/y.sock --volume-attach-limit -1 -v 7").unwrap();
    assert_eq!(flags.common.endpoint, "unix:///x/y.sock");
    assert_eq!(flags.common.verbosity, 7);
}

#[test]
fn arguments_of_reference_chart_are_accepted() {
    for line in [
        "node --endpoint=unix:/csi/csi.sock --csi-mount-point-prefix=/var/lib/kubelet/plugins/kubernetes.io/csi/ebs.csi.aws.com/ \
         --logging-format=text --v=2 --reserved-volume-attachments=1 --metadata-sources=imds,kubernetes \
         --legacy-xfs=true --http-endpoint=0.0.0.0:3302 --enable-otel-tracing=true --windows-host-process=true",
        "controller --endpoint=unix:///var/lib/csi/sockets/pluginproxy/csi.sock --batching=true --extra-tags=a=b \
         --k8s-tag-cluster-id=c --http-endpoint=0.0.0.0:3301 --deprecated-metrics=true --warn-on-invalid-tag=true \
         --aws-sdk-debug-log=true --user-agent-extra=helm --logging-format=json --v=7 \
         --modify-volume-request-handler-timeout=2s",
    ] {
        if let Err(refused) = checked(line) {
            panic!("{line}: {refused}");
        }
    }
}

#[test]
fn invalid_value_is_usage_error_that_names_flag() {
    refused("all --v=-1", "--v");
    refused("all --v=2147483648", "--v");
    refused("all --logging-format=xml", "--logging-format");
    refused("all --logging-format=json --vmodule=a=2", "--vmodule");
    refused("all --vmodule=a", "--vmodule");
    refused("all --log-flush-frequency=0", "--log-flush-frequency");
    refused("all --log-text-split-stream", "split log streams");
    refused("all --log-json-info-buffer-size=1Mi", "log buffers");
    refused("all --log-json-info-buffer-size=much", "--log-json-info-buffer-size");
    refused("all --shutdown-timeout=20", "--shutdown-timeout");
    refused("all --modify-volume-request-handler-timeout=0", "--modify-volume-request-handler-timeout");
    refused("all --endpoint=http://x", "--endpoint");
    refused("all --endpoint=tcp://0.0.0.0:1", "loopback");
    refused("all --endpoint-mode=rw", "--endpoint-mode");
    refused("all --http-endpoint=3301", "--http-endpoint");
    refused("all --metadata-sources=imds,,kubernetes", "--metadata-sources");
    refused("all --metadata-sources=aws", "--metadata-sources");
    refused("all --extra-tags=a", "--extra-tags");
    refused("all --extra-tags=kubernetes.io/x=y", "--extra-tags");
    refused("all --volume-attach-limit=5 --reserved-volume-attachments=1", "mutually exclusive");
    refused("all --volume-attach-limit=-2", "--volume-attach-limit");
    refused("node --endpoint=tcp://127.0.0.1:1", "--state-dir");
    refused("node --state-dir=relative", "--state-dir");
}

#[test]
fn flag_without_effect_is_logged() {
    let said = |line: &str| checks::without_effect(&read(line).expect(line), Platform::Linux);
    assert_eq!(said("all --log-flush-frequency=5s --deprecated-metrics --batching"), Vec::<String>::new());
    for (flag, value) in [
        ("--logtostderr", ""),
        ("--log-flush-frequency", "=1s"),
        ("--windows-host-process", ""),
        ("--format-over-csi-proxy", ""),
        ("--csi-mount-point-prefix", "=x"),
    ] {
        let said = said(&format!("all {flag}{value}"));
        assert!(said.len() == 1 && said[0].starts_with(flag), "{flag}: {said:?}");
    }
    assert!(said("all word")[0].contains("\"word\" is ignored"));
}

/// Incomplete TLS settings are rejected instead of ignored.
#[test]
fn metrics_tls_needs_endpoint_certificate_and_key() {
    let (address, certificate, key) = ("--http-endpoint=:1", "--metrics-cert-file=/c", "--metrics-key-file=/k");
    for mode in ["all", "controller", "node"] {
        refused(&format!("{mode} {certificate} {address}"), "needs --metrics-key-file");
        refused(&format!("{mode} {key} {address}"), "needs --metrics-cert-file");
        refused(&format!("{mode} {certificate} {key}"), "needs --http-endpoint");
        refused(&format!("{mode} {key}"), "--metrics-key-file");
        let settings = checked(&format!("{mode} {certificate} {key} {address}")).unwrap();
        let files = settings.http.and_then(|http| http.tls).unwrap();
        assert_eq!((files.certificate.to_str(), files.key.to_str()), (Some("/c"), Some("/k")));
        assert!(checked(&format!("{mode} {address}")).unwrap().http.unwrap().tls.is_none());
    }
}

#[test]
fn relative_or_empty_mount_point_prefix_is_ignored() {
    let below = |line: &str| checked(line).unwrap().node.unwrap().mounts_below;
    assert_eq!(below("node --csi-mount-point-prefix=/x/"), Some("/x/".into()));
    assert_eq!(below("node --csi-mount-point-prefix=/"), Some("/".into()));
    assert_eq!((below("node"), below("node --csi-mount-point-prefix=x")), (None, None));
}

/// The check is made before the driver touches anything.
#[test]
fn too_long_socket_path_is_usage_error() {
    refused(&format!("all --endpoint=unix:///{}", "x".repeat(200)), "107");
}

/// An empty list is accepted.
#[test]
fn metadata_sources_keep_order_and_ignore_case() {
    use ebs_metadata::SourceKind::{Imds, Kubernetes, MetadataLabeler};
    let sources = |line: &str| checked(line).unwrap().metadata_sources;
    assert_eq!(sources("node"), [Imds, Kubernetes]);
    assert_eq!(sources("node --metadata-sources=IMDS"), [Imds]);
    let split = "node --metadata-sources=metadata-labeler --metadata-sources=Kubernetes,imds";
    assert_eq!(sources(split), [MetadataLabeler, Kubernetes, Imds]);
    assert_eq!(sources("node --metadata-sources="), []);
}

/// Invalid options, including logging options, exit with code 2 and name the flag.
#[test]
fn help_exits_with_0_and_invalid_option_with_2() {
    assert_eq!(read("--help").unwrap_err().report(), 0);
    assert_eq!(read("node -h").unwrap_err().report(), 0);
    assert_eq!(read("--no-such-flag").unwrap_err().report(), 2);
    assert_eq!(checked("all --metadata-sources=aws").unwrap_err().report(), 2);
}
