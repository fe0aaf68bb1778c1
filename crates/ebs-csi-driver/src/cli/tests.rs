#[cfg(unix)]
mod chart_flags;
#[cfg(unix)]
mod environment;
mod every_flag;
#[cfg(unix)]
mod options_page;
mod windows;

use super::*;

fn read(line: &str) -> Result<Flags, Refused> {
    Flags::read(std::iter::once(NAME).chain(line.split_whitespace()).map(OsString::from))
}

fn job(line: &str) -> Result<Job, Refused> {
    let flags = read(line)?;
    flags.log(None)?;
    flags.check()
}

/// Returns the settings of a mode that serves CSI.
fn checked(line: &str) -> Result<DriverSettings, Refused> {
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
fn help_of_each_mode_matches_its_snapshot() {
    for mode in every_flag::ALL_MODES {
        insta::assert_snapshot!(format!("help_of_{mode}"), help(mode));
    }
}

#[test]
fn mode_defaults_to_all() {
    for line in ["", "--v=2", "-v 2", "all"] {
        assert_eq!(read(line).expect(line).role, Role::Driver(Mode::All));
    }
    assert_eq!(read("controller").unwrap().role, Role::Driver(Mode::Controller));
    assert_eq!(read("node").unwrap().role, Role::Driver(Mode::Node));
    assert_eq!(read("metadataLabeler").unwrap().role, Role::Labeler);
    assert_eq!(read("pre-stop-hook").unwrap().role, Role::PreStopHook);
    assert!(Flags::read([]).is_ok());
}

/// The labeler and the hook accept the common flags, and the labeler also accepts the AWS flags. Neither serves CSI.
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

#[test]
fn error_for_a_misplaced_flag_names_the_modes_that_accept_it() {
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
fn defaults_equal_the_reference_except_for_batching() {
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
    assert_eq!(settings.endpoint.to_string(), "unix:///tmp/csi.sock");
    assert_eq!(settings.node.unwrap().state_dir.as_deref(), Some(std::path::Path::new("/tmp")));
    assert!(settings.common.http.is_none());
}

#[test]
fn last_value_of_a_flag_wins_but_map_flags_are_merged() {
    let flags = read("all --v=1 --v=4 --extra-tags=a=1 --extra-tags=b=2").unwrap();
    assert_eq!(flags.common.verbosity, 4);
    assert_eq!(flags.controller.unwrap().extra_tags, ["a=1", "b=2"]);
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
        let files = settings.common.http.and_then(|http| http.tls).unwrap();
        assert_eq!((files.certificate.to_str(), files.key.to_str()), (Some("/c"), Some("/k")));
        assert!(checked(&format!("{mode} {address}")).unwrap().common.http.unwrap().tls.is_none());
    }
}

#[test]
fn health_endpoint_needs_an_address_of_its_own() {
    for mode in ["all", "controller", "node"] {
        assert!(checked(mode).unwrap().common.health.is_none());
        let beside = format!("{mode} --health-endpoint=:9808 --http-endpoint=:3301");
        assert_eq!(checked(&beside).unwrap().common.health, Some(":9808".parse().unwrap()));
        refused(&format!("{mode} --health-endpoint=:9808 --http-endpoint=:9808"), "same address");
        refused(&format!("{mode} --health-endpoint=9808"), "--health-endpoint: \"9808\" is not a listen address");
    }
}

#[test]
fn relative_or_empty_mount_point_prefix_is_ignored() {
    let below = |line: &str| checked(line).unwrap().node.unwrap().mounts_below;
    assert_eq!(below("node --csi-mount-point-prefix=/x/"), Some("/x/".into()));
    assert_eq!(below("node --csi-mount-point-prefix=/"), Some("/".into()));
    assert_eq!((below("node"), below("node --csi-mount-point-prefix=x")), (None, None));
}

/// The parser also accepts an empty list.
#[test]
fn metadata_sources_keep_order_and_ignore_case() {
    use ebs_metadata::SourceKind::{Imds, Kubernetes, MetadataLabeler};
    let sources = |line: &str| checked(line).unwrap().common.metadata_sources;
    assert_eq!(sources("node"), [Imds, Kubernetes]);
    assert_eq!(sources("node --metadata-sources=IMDS"), [Imds]);
    let split = "node --metadata-sources=metadata-labeler --metadata-sources=Kubernetes,imds";
    assert_eq!(sources(split), [MetadataLabeler, Kubernetes, Imds]);
    assert_eq!(sources("node --metadata-sources="), []);
}
