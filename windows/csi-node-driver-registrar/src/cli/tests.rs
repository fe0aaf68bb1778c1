use std::collections::BTreeSet;
use std::path::Path;

use super::*;

fn read(line: &str) -> Result<(Job, LogSettings, Vec<String>), Refused> {
    super::read(line.split_whitespace().map(OsString::from))
}

const REQUIRED: &str = "--kubelet-registration-path=/var/lib/kubelet/plugins/d/csi.sock";

/// Parses the command line, with the required flag added.
fn settings(line: &str) -> Settings {
    match read(&format!("{REQUIRED} {line}")).expect(line).0 {
        Job::Register(settings) => settings,
        other => panic!("{line}: {other:?}"),
    }
}

#[track_caller]
fn refused(line: &str, exit_code: u8, because: &str) {
    let refused = read(line).expect_err(line);
    assert_eq!(refused.exit_code(), exit_code, "{line}: {refused}");
    assert!(refused.to_string().contains(because), "{line}: {refused}");
}

fn notes(line: &str) -> Vec<String> {
    read(&format!("{REQUIRED} {line}")).expect(line).2
}

#[test]
fn flags_and_defaults_match_the_official_registrar() {
    #[rustfmt::skip]
    let official = [
        ("automaxprocs", "false"), ("connection-timeout", "0"), ("csi-address", "/run/csi/socket"),
        ("enable-pprof", "false"), ("health-port", "0"), ("help", "false"), ("http-endpoint", ""),
        ("kubelet-registration-path", ""), ("log-flush-frequency", "5s"), ("log-json-info-buffer-size", "0"),
        ("log-json-split-stream", "false"), ("log-text-info-buffer-size", "0"), ("log-text-split-stream", "false"),
        ("logging-format", "text"), ("mode", ""), ("plugin-registration-path", "/registration"), ("timeout", "1s"),
        ("v", "0"), ("version", "false"), ("vmodule", ""),
    ];
    let ours: BTreeSet<(String, String)> = flags().into_iter().map(|[name, _, default, _]| (name, default)).collect();
    let ours: Vec<(&str, &str)> = ours.iter().map(|(name, default)| (name.as_str(), default.as_str())).collect();
    assert_eq!(ours, official);
    let settings = settings("");
    assert_eq!(settings.driver, Address::Local(Platform::HERE.path("/run/csi/socket")));
    assert_eq!(settings.endpoint, "/var/lib/kubelet/plugins/d/csi.sock");
    assert_eq!(settings.registration, Place::Directory("/registration".to_owned()));
    assert_eq!((settings.timeout, settings.http, settings.diagnostics), (Duration::from_secs(1), None, false));
}

#[test]
fn missing_path_or_two_health_ports_exit_1_other_errors_2() {
    refused("", 1, "--kubelet-registration-path is missing");
    refused("--kubelet-registration-path=", 1, "--kubelet-registration-path is missing");
    refused(&format!("{REQUIRED} --http-endpoint=:9809 --health-port=9809"), 1, "--http-endpoint and --health-port");
    for (line, because) in [
        ("--no-such-flag", "--no-such-flag"),
        ("--csi-address=csi.sock", "--csi-address \"csi.sock\" must be /PATH"),
        ("--csi-address=tcp://192.0.2.1:1", "loopback"),
        ("--plugin-registration-path=", "--plugin-registration-path is empty"),
        ("--plugin-registration-path=tcp://nowhere", "loopback"),
        ("--timeout=1", "--timeout"),
        ("--timeout=0", "--timeout"),
        ("--timeout", "--timeout needs a value"),
        ("--connection-timeout=x", "--connection-timeout"),
        ("--http-endpoint=9809", "--http-endpoint"),
        ("--health-port=65536", "--health-port"),
        ("--health-port=http", "--health-port"),
        ("--enable-pprof=yes", "--enable-pprof"),
        ("--v=x", "--v"),
        ("--logging-format=xml", "--logging-format"),
        ("--log-text-split-stream", "split log streams"),
    ] {
        refused(&format!("{REQUIRED} {line}"), 2, because);
    }
    let long = format!("{REQUIRED} --csi-address=/{}", "x".repeat(107));
    refused(&long, 2, "108 bytes, at most 107");
}

#[test]
fn deprecated_probe_mode_and_version_exit_immediately() {
    assert!(matches!(read(&format!("{REQUIRED} --mode=kubelet-registration-probe")).unwrap().0, Job::Probe));
    let with_both = format!("{REQUIRED} -mode kubelet-registration-probe --http-endpoint=:1 --health-port=1");
    assert!(matches!(read(&with_both).unwrap().0, Job::Probe));
    refused("--mode=kubelet-registration-probe", 1, "--kubelet-registration-path is missing");
    assert!(matches!(read("--version").unwrap().0, Job::Version));
    assert!(matches!(read("-version --mode=kubelet-registration-probe").unwrap().0, Job::Version));
    for help in ["--help", "-h", "-help"] {
        assert!(matches!(read(help).unwrap().0, Job::Help), "{help}");
    }
}

#[test]
fn health_port_is_an_http_endpoint_on_all_addresses() {
    assert_eq!(settings("--health-port=9809").http, ":9809".parse().ok());
    assert_eq!(settings("--http-endpoint=0.0.0.0:9809").http, "0.0.0.0:9809".parse().ok());
    assert_eq!(settings("--health-port=-1").http, None);
    assert_eq!(settings("--http-endpoint=:1 --health-port=0").http, ":1".parse().ok());
    assert!(notes("--health-port=9809")[0].contains("deprecated"));
}

#[test]
fn flags_without_effect_are_logged() {
    assert_eq!(notes("--http-endpoint=:1 --enable-pprof --v=5 --mode="), Vec::<String>::new());
    for (line, said) in [
        ("--connection-timeout=10s", "--connection-timeout is ignored"),
        ("--automaxprocs", "--automaxprocs is ignored"),
        ("--mode=other", "--mode=other is ignored"),
        ("--enable-pprof", "--enable-pprof is ignored without"),
        ("--log-flush-frequency=1s", "--log-flush-frequency has no effect"),
        ("--enable-pprof=false no", "argument \"no\" is ignored"),
    ] {
        let notes = notes(line);
        assert!(notes.len() == 1 && notes[0].starts_with(said), "{line}: {notes:?}");
    }
}

#[test]
fn arguments_of_the_chart_are_accepted() {
    let linux = "--csi-address=/csi/csi.sock --kubelet-registration-path=/var/lib/kubelet/plugins/ebs.csi.aws.com/csi.sock \
                 --http-endpoint=0.0.0.0:9809 --v=2";
    let Job::Register(settings) = read(linux).unwrap().0 else { panic!("not to register") };
    assert_eq!(settings.endpoint, "/var/lib/kubelet/plugins/ebs.csi.aws.com/csi.sock");
    for windows in [
        r"--csi-address=unix:/csi/csi.sock --kubelet-registration-path=C:\var\lib\kubelet\plugins\ebs.csi.aws.com\csi.sock
          --http-endpoint=0.0.0.0:9809 --v=2",
        r"--csi-address=unix://C:\\var\\lib\\kubelet\\plugins\\ebs.csi.aws.com\\csi.sock
          --kubelet-registration-path=C:\var\lib\kubelet\plugins\ebs.csi.aws.com\csi.sock --http-endpoint=0.0.0.0:9809
          --plugin-registration-path=C:\\var\\lib\\kubelet\\plugins_registry\\ --v=2",
    ] {
        let Job::Register(settings) = read(windows).unwrap().0 else { panic!("not to register") };
        assert_eq!(settings.endpoint, r"C:\var\lib\kubelet\plugins\ebs.csi.aws.com\csi.sock", "told as given");
    }
}

/// Returns the name, value, default and help of each flag.
fn flags() -> Vec<[String; 4]> {
    let row = |flag: &clap::Arg| {
        let name = flag.get_long()?.to_owned();
        let value = flag.get_value_names().map(|names| names[0].to_string()).unwrap_or_default();
        let default = flag.get_default_values().first().map(|default| default.to_string_lossy().into_owned());
        Some([name, value, default.unwrap_or_default(), flag.get_help()?.to_string()])
    };
    command::<Flags>(version::NAME).get_arguments().filter_map(row).collect()
}

fn table() -> String {
    let mut text = String::from("| flag | value | default | what it does |\n|---|---|---|---|\n");
    for [name, value, default, help] in flags() {
        let kind = if value == "BOOL" { "boolean".to_owned() } else { format!("`{value}`") };
        let default = if default.is_empty() { "–".to_owned() } else { format!("`{default}`") };
        text.push_str(&format!("| `--{name}` | {kind} | {default} | {help} |\n"));
    }
    text
}

/// `EBS_WRITE_DOCS=1` makes the test write the table instead.
#[test]
fn flags_in_the_documentation_match_the_code() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/registrar.md");
    let before = std::fs::read_to_string(&path).expect("docs/registrar.md");
    let (begin, end) = ("<!-- table of the code: flags -->\n", "<!-- end of flags -->\n");
    let (head, rest) = before.split_once(begin).expect("the table's beginning");
    let (_, tail) = rest.split_once(end).expect("the table's end");
    let page = format!("{head}{begin}{}{end}{tail}", table());
    if std::env::var_os("EBS_WRITE_DOCS").is_some_and(|value| value == "1") {
        std::fs::write(&path, page).expect("the page can be written");
    } else {
        assert!(before == page, "docs/registrar.md is not as the code says: run this test with EBS_WRITE_DOCS=1");
    }
}
