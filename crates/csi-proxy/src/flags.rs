//! The command line: that of the Go proxy, and what is new here.

mod go_style;
#[cfg(test)]
mod tests;

use std::path::PathBuf;

pub use go_style::BadCommandLine;
use go_style::{Given, Kind, bad};

use crate::groups::ApiGroups;
use crate::log::{LogSettings, Severity};

/// How strictly paths are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathChecks {
    /// Component by component, on all calls that take a path.
    Strict,
    /// As the Go proxy does: five checks of the text, on some calls. Insecure.
    Legacy,
}

/// Where records of calls go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTo {
    /// Into the log.
    Log,
    /// Into a file of its own.
    File(PathBuf),
    /// Nowhere.
    Off,
}

/// Who may open the pipes: nobody but the system and administrators, who may not serve them.
pub const DEFAULT_PIPE_SECURITY: &str = "D:P(A;;GA;;;SY)(A;;0x12019b;;;BA)";

/// What a command line asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Directories below which paths may lie; the kubelet's is the last.
    pub working_dirs: Vec<String>,
    /// Started by the service control manager.
    pub windows_service: bool,
    /// New SMB mappings are encrypted.
    pub require_privacy: bool,
    /// Where metrics are served, if at all.
    pub metrics_bind_address: Option<String>,
    /// Which groups and versions are served.
    pub api_groups: ApiGroups,
    /// Who may open the pipes, in Windows' notation.
    pub pipe_security: String,
    /// Groups of nearly everybody may write to the pipes.
    pub insecure_pipe_acl: bool,
    /// Where records of calls go.
    pub audit_log: AuditTo,
    /// How strictly paths are looked at.
    pub validate_paths: PathChecks,
    /// A volume that is formatted may be formatted.
    pub allow_reformat: bool,
    /// Where log lines go.
    pub log: LogSettings,
    /// What to tell about the command line once there is a log.
    pub warnings: Vec<String>,
}

/// What the program is to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// Serve.
    Run(Box<Settings>),
    /// Print the version.
    Version,
    /// Print the flags.
    Help,
}

const KUBELET: &str = r"C:\var\lib\kubelet";

/// Name, what stands behind it, and what it is for.
const FLAGS: [(&str, Kind, &str); 30] = [
    ("kubelet-path", Kind::Value, r"directory of the kubelet, always one to work in (C:\var\lib\kubelet)"),
    ("working-dir", Kind::Value, "another directory to work in; may be given several times"),
    ("kubelet-csi-plugins-path", Kind::Value, "old name of a directory to work in"),
    ("kubelet-pod-path", Kind::Value, "old name of a directory to work in"),
    ("windows-service", Kind::Switch, "run under the service control manager"),
    ("require-privacy", Kind::Switch, "encrypt new SMB mappings (true)"),
    ("metrics-bind-address", Kind::Value, "serve /metrics there, like 127.0.0.1:8888; none by default"),
    ("api-groups", Kind::Value, "serve these alone: groups, or group/version, with commas between"),
    ("pipe-security-descriptor", Kind::Value, "who may open the pipes, in SDDL"),
    ("insecure-pipe-acl", Kind::Switch, "take a descriptor that lets nearly everybody write"),
    ("audit-log", Kind::Value, "file for records of calls, or off; into the log by default"),
    ("validate-paths", Kind::Value, "strict, or legacy as the Go proxy does (insecure)"),
    ("allow-reformat", Kind::Switch, "format volumes that are formatted, as the Go proxy does"),
    ("version", Kind::Switch, "print the version"),
    ("help", Kind::Switch, "print this"),
    ("h", Kind::Switch, "print this"),
    ("v", Kind::Value, "verbosity of the log (0)"),
    ("vmodule", Kind::Value, "accepted: verbosity by file"),
    ("logtostderr", Kind::Switch, "log to standard error and not to files (true)"),
    ("alsologtostderr", Kind::Switch, "log to standard error and to files"),
    ("stderrthreshold", Kind::Value, "from this severity on also to standard error when logging to files (2)"),
    ("log_file", Kind::Value, "the log file"),
    ("log_dir", Kind::Value, "directory of log files, when there is no log_file"),
    ("log_file_max_size", Kind::Value, "size in MB at which the log file is begun anew; 0 for none (1800)"),
    ("log_backtrace_at", Kind::Value, "accepted and not used"),
    ("add_dir_header", Kind::Switch, "the directory of the source file in each line"),
    ("one_output", Kind::Switch, "accepted: there is one log file whatever the severity"),
    ("skip_headers", Kind::Switch, "no header before each line"),
    ("skip_log_headers", Kind::Switch, "no lines at the beginning of the log file"),
    ("log_flush_frequency", Kind::Value, "accepted: each line is written at once"),
];

/// Reads the command line, without the program's name. Of a flag given twice the last counts; `working-dir` adds up.
///
/// # Errors
///
/// The first thing that is not understood, in Go's words where it has some.
pub fn read(arguments: impl IntoIterator<Item = String>) -> Result<Command, BadCommandLine> {
    let kind = |name: &str| FLAGS.iter().find(|(flag, _, _)| *flag == name).map(|(_, kind, _)| *kind);
    let given = Given::read(arguments, kind)?;
    if given.switch("help", false)? || given.switch("h", false)? {
        return Ok(Command::Help);
    }
    if given.switch("version", false)? {
        return Ok(Command::Version);
    }
    let api_groups = given.text("api-groups", "");
    let api_groups =
        ApiGroups::parse(&api_groups).map_err(|error| bad("api-groups", &api_groups, &error.to_string()))?;
    let (working_dirs, mut warnings) = working_dirs(&given);
    let validate_paths = path_checks(&given)?;
    if validate_paths == PathChecks::Legacy {
        warnings.push("Insecure: --validate-paths=legacy lets clients out of the working directories".to_owned());
    }
    Ok(Command::Run(Box::new(Settings {
        working_dirs,
        windows_service: given.switch("windows-service", false)?,
        require_privacy: given.switch("require-privacy", true)?,
        metrics_bind_address: given.filled("metrics-bind-address"),
        api_groups,
        pipe_security: given.text("pipe-security-descriptor", DEFAULT_PIPE_SECURITY),
        insecure_pipe_acl: given.switch("insecure-pipe-acl", false)?,
        audit_log: match given.text("audit-log", "").as_str() {
            "" => AuditTo::Log,
            "off" => AuditTo::Off,
            file => AuditTo::File(file.into()),
        },
        validate_paths,
        allow_reformat: given.switch("allow-reformat", false)?,
        log: log_settings(&given)?,
        warnings,
    })))
}

/// What `--help` prints.
#[must_use]
pub fn usage() -> String {
    let mut text = "csi-proxy: storage of this node for CSI drivers in Windows containers\n\n".to_owned();
    for (name, kind, about) in FLAGS {
        let value = if kind == Kind::Value { " VALUE" } else { "" };
        text.push_str(&format!("  -{name}{value}\n        {about}\n"));
    }
    text
}

fn working_dirs(given: &Given) -> (Vec<String>, Vec<String>) {
    let mut directories = given.all("working-dir").to_vec();
    let mut warnings = Vec::new();
    for old in ["kubelet-csi-plugins-path", "kubelet-pod-path"] {
        for directory in given.all(old) {
            warnings.push(format!("--{old} is an old flag: use --working-dir={directory}"));
            directories.push(directory.clone());
        }
    }
    directories.push(given.text("kubelet-path", KUBELET));
    (directories, warnings)
}

fn path_checks(given: &Given) -> Result<PathChecks, BadCommandLine> {
    match given.text("validate-paths", "strict").as_str() {
        "strict" => Ok(PathChecks::Strict),
        "legacy" => Ok(PathChecks::Legacy),
        other => Err(bad("validate-paths", other, "strict or legacy is expected")),
    }
}

fn log_settings(given: &Given) -> Result<LogSettings, BadCommandLine> {
    let threshold = given.text("stderrthreshold", "2");
    let stderr_from =
        Severity::parse(&threshold).ok_or_else(|| bad("stderrthreshold", &threshold, "0 to 3 is expected"))?;
    const MEGABYTE: u64 = 1024 * 1024;
    Ok(LogSettings {
        verbosity: given.number("v", 0)?,
        to_stderr: given.switch("logtostderr", true)?,
        also_to_stderr: given.switch("alsologtostderr", false)?,
        stderr_from,
        file: given.filled("log_file").map(PathBuf::from),
        directory: given.filled("log_dir").map(PathBuf::from),
        file_bytes: given.number("log_file_max_size", 1800_u64)?.saturating_mul(MEGABYTE),
        directory_in_header: given.switch("add_dir_header", false)?,
        skip_line_headers: given.switch("skip_headers", false)?,
        skip_file_headers: given.switch("skip_log_headers", false)?,
    })
}
