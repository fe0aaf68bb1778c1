//! The command line: the flags of the Go proxy, and new ones.

#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use go_flags::{CommandLine, Flag, Kind};
use klog::{FILE_FLAGS, FileSettings};

use crate::groups::ApiGroups;
use crate::selftest::{self, Selftest};

/// How strictly paths are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChecks {
    /// Checks each component, in all calls that take a path.
    Strict,
    /// Checks as the Go proxy does: five checks of the text, in some calls. Insecure.
    Legacy,
}

/// The destination of audit records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTo {
    /// The program's log.
    Log,
    /// A separate file.
    File(PathBuf),
    /// No records.
    Off,
}

/// The default access rights of the pipes: only the system and administrators may open them, and administrators may not
/// serve them.
pub const DEFAULT_PIPE_SECURITY: &str = "D:P(A;;GA;;;SY)(A;;0x12019b;;;BA)";

/// The settings of a command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Directories that contain all allowed paths; the kubelet's is the last.
    pub working_dirs: Vec<String>,
    /// Whether the service control manager has started the program.
    pub windows_service: bool,
    /// Whether new SMB mappings are encrypted.
    pub require_privacy: bool,
    /// The address of the metrics endpoint, if enabled.
    pub metrics_bind_address: Option<String>,
    /// The enabled groups and versions.
    pub api_groups: ApiGroups,
    /// The access rights of the pipes, in SDDL.
    pub pipe_security: String,
    /// Whether large groups such as Everyone may have write access to the pipes.
    pub insecure_pipe_acl: bool,
    /// The destination of audit records.
    pub audit_log: AuditTo,
    /// How strictly paths are checked.
    pub validate_paths: PathChecks,
    /// Whether PartitionDisk and FormatVolume overwrite existing contents.
    pub allow_reformat: bool,
    /// Format and destination of the log.
    pub log: FileSettings,
    /// Warnings about the command line, for when the log exists.
    pub warnings: Vec<String>,
}

/// The command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Run(Box<Settings>),
    /// Test a spare disk.
    Selftest(Selftest),
    /// Print the version.
    Version,
    /// Print this help text.
    Help(String),
}

const KUBELET: &str = r"C:\var\lib\kubelet";

const OWN: [Flag; 15] = [
    Flag::value("kubelet-path", "DIRECTORY", KUBELET, "directory of the kubelet, always a working directory"),
    Flag::value("working-dir", "DIRECTORY", "", "additional working directory; may be repeated"),
    Flag::value("kubelet-csi-plugins-path", "DIRECTORY", "", "deprecated: use --working-dir"),
    Flag::value("kubelet-pod-path", "DIRECTORY", "", "deprecated: use --working-dir"),
    Flag::boolean("windows-service", "run as a service of the service control manager"),
    Flag { name: "require-privacy", kind: Kind::Boolean, default: "true", help: "encrypt new SMB mappings" },
    Flag::value("metrics-bind-address", "ADDRESS", "", "address of /metrics, such as 127.0.0.1:8888; none by default"),
    Flag::value("api-groups", "GROUPS", "", "serve only these groups or group/version pairs, separated by commas"),
    Flag::value("pipe-security-descriptor", "SDDL", DEFAULT_PIPE_SECURITY, "security descriptor of the pipes, in SDDL"),
    Flag::boolean("insecure-pipe-acl", "accept a security descriptor that gives large groups write access"),
    Flag::value("audit-log", "FILE", "", "file for records of calls, or off; the log by default"),
    Flag::value("validate-paths", "VALUE", "strict", "strict, or legacy like the Go proxy (insecure)"),
    Flag::boolean("allow-reformat", "overwrite data on disks, like the Go proxy"),
    Flag::boolean("version", "print the version"),
    Flag::boolean("help", "print this help"),
];

/// An invalid command line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommandLine {
    /// An unknown flag, or an invalid value.
    #[error(transparent)]
    Flags(#[from] go_flags::BadCommandLine),
    /// An invalid flag of the log.
    #[error(transparent)]
    Log(#[from] klog::BadLogFlags),
    /// An argument that is not a flag.
    #[error("unexpected argument {0:?}; use flags only")]
    Argument(String),
}

/// Parses the command line without the program's name. If a flag is repeated, the last value counts, except that
/// `working-dir` accumulates.
///
/// # Errors
///
/// The first invalid argument.
pub fn read(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Command, BadCommandLine> {
    let mut arguments = arguments.into_iter().map(Into::into).peekable();
    if arguments.next_if(|first| first.to_str() == Some(selftest::WORD)).is_some() {
        let asked = selftest::read(arguments)?;
        return Ok(asked.map_or_else(|| Command::Help(selftest::usage()), Command::Selftest));
    }
    let line = match CommandLine::read(&flags(), arguments) {
        Err(go_flags::BadCommandLine::Help) => return Ok(Command::Help(usage())),
        read => read?,
    };
    if let Some(word) = line.words().first() {
        return Err(BadCommandLine::Argument(word.clone()));
    }
    if line.boolean("help") {
        return Ok(Command::Help(usage()));
    }
    if line.boolean("version") {
        return Ok(Command::Version);
    }
    let api_groups = line.parsed("api-groups", |text| ApiGroups::parse(text).map_err(|error| error.to_string()))?;
    let (working_dirs, mut warnings) = working_dirs(&line);
    let validate_paths = line.parsed("validate-paths", path_checks)?;
    if validate_paths == PathChecks::Legacy {
        warnings.push(
            "Insecure: --validate-paths=legacy lets clients use paths outside the working directories".to_owned(),
        );
    }
    Ok(Command::Run(Box::new(Settings {
        working_dirs,
        windows_service: line.boolean("windows-service"),
        require_privacy: line.boolean("require-privacy"),
        metrics_bind_address: filled(&line, "metrics-bind-address").map(str::to_owned),
        api_groups,
        pipe_security: line.text("pipe-security-descriptor").to_owned(),
        insecure_pipe_acl: line.boolean("insecure-pipe-acl"),
        audit_log: match line.text("audit-log") {
            "" => AuditTo::Log,
            "off" => AuditTo::Off,
            file => AuditTo::File(file.into()),
        },
        validate_paths,
        allow_reformat: line.boolean("allow-reformat"),
        log: FileSettings::of(&line)?,
        warnings,
    })))
}

/// Returns the output of `--help`.
fn usage() -> String {
    let about = "csi-proxy: storage of this node for CSI drivers in Windows containers";
    let tests = "csi-proxy selftest --help: test this machine's storage with a spare disk";
    format!("{about}\n\n{}\n{tests}\n", go_flags::usage("csi-proxy", &flags()))
}

/// Returns the table of flags, including the flags of the log.
fn flags() -> Vec<Flag> {
    OWN.into_iter().chain(FILE_FLAGS).collect()
}

fn filled<'a>(line: &'a CommandLine, flag: &str) -> Option<&'a str> {
    Some(line.text(flag)).filter(|text| !text.is_empty())
}

fn working_dirs(line: &CommandLine) -> (Vec<String>, Vec<String>) {
    let mut directories = line.all("working-dir").to_vec();
    let mut warnings = Vec::new();
    for old in ["kubelet-csi-plugins-path", "kubelet-pod-path"] {
        for directory in line.all(old) {
            warnings.push(format!("--{old} is deprecated: use --working-dir={directory}"));
            directories.push(directory.clone());
        }
    }
    directories.push(line.text("kubelet-path").to_owned());
    (directories, warnings)
}

fn path_checks(text: &str) -> Result<PathChecks, String> {
    match text {
        "strict" => Ok(PathChecks::Strict),
        "legacy" => Ok(PathChecks::Legacy),
        _ => Err("it must be strict or legacy".to_owned()),
    }
}
