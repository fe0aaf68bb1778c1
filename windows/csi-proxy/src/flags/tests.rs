use super::*;

fn settings(line: &[&str]) -> Settings {
    match read(line.iter().map(|argument| (*argument).to_owned())).unwrap() {
        Command::Run(settings) => *settings,
        other => panic!("{other:?}"),
    }
}

fn refused(line: &[&str]) -> String {
    read(line.iter().map(|argument| (*argument).to_owned())).unwrap_err().to_string()
}

#[test]
fn command_line_of_a_go_proxy_installation_is_accepted() {
    let line = ["-windows-service", r"-log_file=\etc\kubernetes\logs\csi-proxy.log", "-logtostderr=false", "-v", "5"];
    let given = settings(&line);
    assert!(given.windows_service && !given.log.logtostderr);
    assert_eq!(given.log.log_file, r"\etc\kubernetes\logs\csi-proxy.log");
    assert_eq!(given.log.v, 5);
    let doubled =
        line.map(|argument| if argument.starts_with('-') { format!("-{argument}") } else { argument.to_owned() });
    assert_eq!(given, settings(&doubled.each_ref().map(String::as_str)));
}

#[test]
fn defaults_are_the_safest_settings() {
    let given = settings(&[]);
    assert_eq!(given.working_dirs, [KUBELET]);
    assert!(given.require_privacy && !given.windows_service && !given.allow_reformat && !given.insecure_pipe_acl);
    assert_eq!((given.metrics_bind_address, given.audit_log), (None, AuditTo::Log));
    assert_eq!(given.validate_paths, PathChecks::Strict);
    assert_eq!(given.pipe_security, DEFAULT_PIPE_SECURITY);
    assert!(given.log.logtostderr);
}

#[test]
fn working_dirs_accumulate_and_old_flag_names_warn() {
    let line =
        [r"--working-dir=C:\a", r"-working-dir", r"C:\b", r"--kubelet-pod-path=C:\pods", r"--kubelet-path=D:\kubelet"];
    let given = settings(&line);
    assert_eq!(given.working_dirs, [r"C:\a", r"C:\b", r"C:\pods", r"D:\kubelet"]);
    assert!(given.warnings.len() == 1 && given.warnings[0].contains("--kubelet-pod-path"), "{:?}", given.warnings);
    assert!(settings(&["--validate-paths=legacy"]).warnings[0].contains("Insecure"));
}

#[test]
fn invalid_argument_is_rejected_by_name() {
    assert_eq!(refused(&["-bogus"]), "unknown flag --bogus");
    assert_eq!(refused(&["--working-dir"]), "--working-dir needs a value; use --working-dir=VALUE");
    assert!(refused(&["--require-privacy=maybe"]).contains("--require-privacy"));
    assert!(refused(&["--v=high"]).contains("--v"));
    assert!(refused(&["--validate-paths=lax"]).contains("strict or legacy"));
    assert!(refused(&["--api-groups=disks"]).contains("disks"));
    assert!(refused(&["serve"]).contains("serve"));
    assert!(refused(&["-stderrthreshold=9"]).contains("0 to 3"));
}

#[test]
fn each_listed_flag_is_parsed() {
    let command = flags::command::<Flags>("csi-proxy");
    for flag in command.get_arguments().filter_map(|flag| flag.get_long()) {
        assert!(usage().contains(&format!("  --{flag}")), "{flag}: {}", usage());
        let is_boolean = command.get_arguments().any(|arg| arg.get_long() == Some(flag) && arg.is_require_equals_set());
        let argument = match flag {
            _ if is_boolean => format!("-{flag}"),
            "api-groups" => "-api-groups=disk".to_owned(),
            "validate-paths" => "-validate-paths=strict".to_owned(),
            "vmodule" => "-vmodule=pipe=1".to_owned(),
            "metrics-bind-address" => "-metrics-bind-address=:1".to_owned(),
            _ => format!("-{flag}=1"),
        };
        read([argument]).unwrap();
    }
    assert_eq!(read(["--version"]), Ok(Command::Version));
    for line in [["-h"].as_slice(), &["--help"], &["selftest", "-h"]] {
        assert!(matches!(read(line), Ok(Command::Help(text)) if text.contains("csi-proxy")), "{line:?}");
    }
    assert!(matches!(read(["selftest", "--disk=3"]), Ok(Command::Selftest(asked)) if asked.disk == 3));
    assert!(matches!(read(["selftest", "--help"]), Ok(Command::Help(text)) if text.contains("--disk")));
    for line in
        [["selftest"].as_slice(), &["selftest", "--disk="], &["selftest", "--disk=one"], &["selftest", "--disk=-1"]]
    {
        assert!(refused(line).contains("--disk"), "{line:?}");
    }
    assert!(refused(&["selftest", "1"]).contains("unexpected argument"));
    assert!(refused(&["--v=2", "selftest"]).contains("selftest"), "the word comes first");
}
