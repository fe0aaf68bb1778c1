//! Tries each flag in each mode, to check that no flag is accepted and then silently ignored.

use clap::Arg;

use super::*;

pub(super) const ALL_MODES: [&str; 5] = ["all", "controller", "node", "metadataLabeler", "pre-stop-hook"];

/// A value that differs from the default, for each flag that takes a value.
const SAMPLES: &[(&str, &str)] = &[
    ("endpoint", "unix:///run/other/csi.sock"),
    ("endpoint-mode", "0660"),
    ("http-endpoint", "127.0.0.1:3301"),
    ("health-endpoint", "127.0.0.1:9808"),
    ("shutdown-timeout", "7s"),
    ("metadata-sources", "kubernetes"),
    ("v", "5"),
    ("logging-format", "json"),
    ("kubeconfig", "/etc/kubernetes/kubeconfig"),
    ("metrics-cert-file", "/tls/tls.crt"),
    ("metrics-key-file", "/tls/tls.key"),
    ("vmodule", "stage=5"),
    ("log-flush-frequency", "1s"),
    ("log-text-info-buffer-size", "64Ki"),
    ("log-json-info-buffer-size", "64Ki"),
    ("user-agent-extra", "helm"),
    ("extra-tags", "team=storage"),
    ("extra-volume-tags", "team=storage"),
    ("k8s-tag-cluster-id", "blue"),
    ("modify-volume-request-handler-timeout", "1s"),
    ("volume-attach-limit", "9"),
    ("reserved-volume-attachments", "2"),
    ("state-dir", "/var/lib/state"),
    ("csi-mount-point-prefix", "/var/lib/kubelet/plugins"),
];

/// What the process does with a flag in one mode.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// The flag changes the behaviour of the process.
    Effect,
    /// The flag changes nothing, and the process logs this warning.
    Said(String),
    /// The process rejects the flag with this error and does not start.
    Refused(String),
}

/// Everything that a command line determines. A flag has an effect if it changes any of these fields.
#[derive(PartialEq)]
struct Outcome {
    log: String,
    job: String,
    version: bool,
    traces: bool,
}

fn outcome(arguments: &[&str]) -> Result<(Outcome, Vec<String>), Refused> {
    let flags = Flags::read(std::iter::once(&NAME).chain(arguments).map(OsString::from))?;
    let log = format!("{:?}", flags.log(None)?);
    let job = format!("{:?}", flags.check()?);
    Ok((
        Outcome { log, job, version: flags.asks_for_version(), traces: flags.traces() },
        checks::without_effect(&flags, Platform::HERE),
    ))
}

/// Returns the flags of a mode, without `--help` and positional words.
pub(super) fn flags_of(mode: &str) -> Vec<Arg> {
    let command = command();
    let of_mode = command.find_subcommand(mode).unwrap_or_else(|| panic!("no mode {mode}"));
    of_mode.get_arguments().filter(|arg| arg.get_long().is_some_and(|name| name != "help")).cloned().collect()
}

fn sample(flag: &Arg) -> &'static str {
    let name = flag.get_long().expect("a long flag");
    if let Some((_, sample)) = SAMPLES.iter().find(|(known, _)| *known == name) {
        return sample;
    }
    let is_boolean = flag.get_value_names().is_some_and(|names| names.iter().any(|name| *name == "BOOL"));
    assert!(is_boolean, "--{name}: give the tests a value that is not its default (SAMPLES)");
    if flag.get_default_values().iter().any(|value| value == "true") { "false" } else { "true" }
}

pub(super) fn fate(mode: &str, flag: &Arg) -> Fate {
    let name = flag.get_long().expect("a long flag");
    let given = format!("--{name}={}", sample(flag));
    let (plain, _) = outcome(&[mode]).unwrap_or_else(|refused| panic!("{mode}: {refused}"));
    match outcome(&[mode, &given]) {
        Err(refused) => Fate::Refused(refused.to_string()),
        Ok((seen, notes)) => match notes.into_iter().find(|note| note.starts_with(&format!("--{name} "))) {
            Some(note) => Fate::Said(note),
            None => {
                assert!(seen != plain, "{mode} {given} changes nothing, and the log does not say so");
                Fate::Effect
            }
        },
    }
}

/// In each mode, a flag changes the behaviour of the process, or the log warns that the flag has no effect, or the
/// process rejects it with a reason.
#[test]
fn no_flag_is_ignored_silently_in_any_mode() {
    for mode in ALL_MODES {
        for flag in flags_of(mode) {
            if let Fate::Refused(message) = fate(mode, &flag) {
                assert!(message.len() > "error: ".len() && !message.contains("panicked"), "{mode} {flag:?}: {message}");
            }
        }
    }
    let names: Vec<String> = flags_of("all").iter().filter_map(|flag| flag.get_long().map(str::to_owned)).collect();
    for (name, _) in SAMPLES {
        assert!(names.iter().any(|known| known == name), "--{name} is no flag any more");
    }
}

/// The reference driver's flags with their modes and defaults. `*` marks a default that differs in this driver.
const REFERENCE: &str = "
version                               A false
logtostderr                           A false
kubeconfig                            A
endpoint                              A unix://tmp/csi.sock
http-endpoint                         A
metrics-cert-file                     A
metrics-key-file                      A
enable-otel-tracing                   A false
metadata-sources                      A imds,kubernetes
v                                     A 0
vmodule                               A
logging-format                        A text
log-flush-frequency                   A 5s
log-text-split-stream                 A false
log-json-split-stream                 A false
log-text-info-buffer-size             A 0
log-json-info-buffer-size             A 0
user-agent-extra                      L
aws-sdk-debug-log                     L false
extra-tags                            C
extra-volume-tags                     C
k8s-tag-cluster-id                    C
warn-on-invalid-tag                   C false
batching                              C *true
modify-volume-request-handler-timeout C 2s
deprecated-metrics                    C false
enable-node-local-volumes             C false
volume-attach-limit                   N -1
reserved-volume-attachments           N -1
windows-host-process                  N false
legacy-xfs                            N false
csi-mount-point-prefix                N
";

/// Flags that the reference does not have.
pub(super) const OURS: [&str; 5] =
    ["endpoint-mode", "format-over-csi-proxy", "health-endpoint", "shutdown-timeout", "state-dir"];

fn modes_of(letter: &str) -> &'static [&'static str] {
    match letter {
        "A" => &ALL_MODES,
        "L" => &["all", "controller", "metadataLabeler"],
        "C" => &["all", "controller"],
        "N" => &["all", "node"],
        other => panic!("no group of modes {other}"),
    }
}

#[test]
fn every_mode_has_the_reference_flags_and_documented_extras() {
    for mode in ALL_MODES {
        let mut expected: Vec<(String, String)> = Vec::new();
        for line in REFERENCE.lines().filter(|line| !line.is_empty()) {
            let mut words = line.split_whitespace();
            let (name, letter) = (words.next().expect("a name"), words.next().expect("modes"));
            if modes_of(letter).contains(&mode) {
                expected.push((name.to_owned(), words.next().unwrap_or_default().trim_start_matches('*').to_owned()));
            }
        }
        let mut there: Vec<(String, String)> = Vec::new();
        for flag in flags_of(mode) {
            let name = flag.get_long().expect("a long flag").to_owned();
            let default: Vec<_> = flag.get_default_values().iter().map(|value| value.to_string_lossy()).collect();
            if !OURS.contains(&name.as_str()) {
                there.push((name, default.join(",")));
            }
        }
        expected.sort();
        there.sort();
        assert_eq!(there, expected, "{mode}");
    }
}
