//! Tests of the Windows command line that run on Linux.

use super::*;

fn on_windows(line: &str) -> Result<Job, Refused> {
    checks::job(&read(line)?, Platform::Windows)
}

/// The driver rejects the labeler and every mode with a controller, including the default mode, as usage errors. The
/// error names the platform that supports the mode. `--version` works in every mode.
#[test]
fn windows_rejects_controller_modes() {
    for line in ["", "all", "controller", "metadataLabeler"] {
        let refused = on_windows(line).expect_err(line);
        assert!(refused.to_string().contains("Linux node"), "{line}: {refused}");
        assert!(refused.0.use_stderr(), "{line}");
        assert!(on_windows(&format!("{line} --version")).is_ok(), "{line}");
        assert!(checks::job(&read(line).unwrap(), Platform::Linux).is_ok(), "{line}");
    }
    assert!(matches!(on_windows("pre-stop-hook").unwrap(), Job::AwaitDetachments(_)));
    for (line, host_process) in [("node", false), ("node --windows-host-process", true)] {
        let Job::Serve(settings) = on_windows(line).unwrap() else { panic!("it serves") };
        let node = settings.node.expect("a node");
        assert_eq!((node.host_process, node.format_over_proxy), (host_process, false), "{line}");
    }
}

/// On Windows the node service needs no state directory. The log warns that flags for Linux file systems and sockets
/// have no effect.
#[test]
fn windows_needs_no_state_dir_and_ignores_linux_flags() {
    let Job::Serve(settings) = on_windows("node --windows-host-process --endpoint=tcp://127.0.0.1:1").unwrap() else {
        panic!("it serves")
    };
    assert_eq!(settings.node.unwrap().state_dir, None);
    let said = |line: &str| checks::without_effect(&read(line).unwrap(), Platform::Windows).join("\n");
    for flag in ["--state-dir=/x", "--legacy-xfs", "--endpoint-mode=0660"] {
        let name = flag.split('=').next().unwrap();
        assert!(said(&format!("node {flag}")).contains(&format!("{name} has no effect")), "{flag}");
    }
    assert_eq!(said("node --windows-host-process"), "");
    assert_eq!(said("node --format-over-csi-proxy"), "");
    assert!(
        said("node --format-over-csi-proxy --windows-host-process").contains("--format-over-csi-proxy has no effect")
    );
}
