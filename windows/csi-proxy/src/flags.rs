//! The command line: the flags of the Go proxy, and new ones.

mod selftest;
#[cfg(test)]
mod tests;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use component_base::flags::{self, CommandLine};
use component_base::http::{BadHttpEndpoint, HttpEndpoint};

pub use self::selftest::Selftest;
use crate::groups::ApiGroups;
use crate::log_file_flags::FileLogFlags;

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum PathChecks {
    /// Checks each component of a path, in all calls that take a path.
    Strict,
    /// Makes the Go proxy's checks: five checks of a path's text, in some calls. This is insecure.
    Legacy,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AuditTo {
    Log,
    File(PathBuf),
    Off,
}

/// The default permissions of the pipes: only the system and administrators may open them, and only the system may
/// serve clients.
pub const DEFAULT_PIPE_SECURITY: &str = "D:P(A;;GA;;;SY)(A;;0x12019b;;;BA)";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The directories that must contain all paths. The last one is the kubelet's directory.
    pub working_dirs: Vec<String>,
    pub windows_service: bool,
    /// Whether new SMB mappings are encrypted.
    pub require_privacy: bool,
    /// The address of the metrics endpoint, if enabled.
    pub metrics_bind_address: Option<HttpEndpoint>,
    pub api_groups: ApiGroups,
    /// The permissions of the pipes, in SDDL.
    pub pipe_security: String,
    /// Whether large groups such as Everyone may have write access to the pipes.
    pub insecure_pipe_acl: bool,
    pub audit_log: AuditTo,
    pub validate_paths: PathChecks,
    /// Whether PartitionDisk and FormatVolume overwrite existing contents.
    pub allow_reformat: bool,
    pub log: FileLogFlags,
    /// Warnings about the command line. They are logged as soon as the log exists.
    pub warnings: Vec<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    Run(Box<Settings>),
    Selftest(Selftest),
    Version,
    Help(String),
}

const KUBELET: &str = r"C:\var\lib\kubelet";

#[derive(Debug, Args)]
struct Flags {
    /// directory of the kubelet, always a working directory
    #[arg(long, default_value = KUBELET, value_name = "DIRECTORY")]
    kubelet_path: String,
    /// additional working directory; may be repeated
    #[arg(long, value_name = "DIRECTORY")]
    working_dir: Vec<String>,
    /// deprecated: use --working-dir
    #[arg(long, value_name = "DIRECTORY")]
    kubelet_csi_plugins_path: Vec<String>,
    /// deprecated: use --working-dir
    #[arg(long, value_name = "DIRECTORY")]
    kubelet_pod_path: Vec<String>,
    /// run as a Windows service
    #[arg(long)]
    windows_service: bool,
    /// encrypt new SMB mappings (the default)
    #[arg(long, default_value = "true")]
    require_privacy: bool,
    /// address of /metrics, such as 127.0.0.1:8888; none by default
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    metrics_bind_address: String,
    /// serve only these groups or group/version pairs, separated by commas
    #[arg(long, default_value = "", value_name = "GROUPS", value_parser = ApiGroups::parse)]
    api_groups: ApiGroups,
    /// security descriptor of the pipes, in SDDL
    #[arg(long, default_value = DEFAULT_PIPE_SECURITY, value_name = "SDDL")]
    pipe_security_descriptor: String,
    /// accept a security descriptor that gives large groups write access
    #[arg(long)]
    insecure_pipe_acl: bool,
    /// file for the audit records of calls, or off; default: the log
    #[arg(long, default_value = "", value_name = "FILE")]
    audit_log: String,
    /// checks of paths: strict, or legacy as in the Go proxy (insecure)
    #[arg(long, default_value = "strict", value_name = "VALUE", hide_possible_values = true)]
    validate_paths: PathChecks,
    /// partition and format disks even if they hold data, like the Go proxy
    #[arg(long)]
    allow_reformat: bool,
    /// print the version
    #[arg(long)]
    version: bool,
    /// print this help
    #[arg(long, alias = "h")]
    help: bool,
    #[arg(hide = true)]
    words: Vec<String>,
    #[command(flatten)]
    log: FileLogFlags,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCommandLine {
    #[error(transparent)]
    Flags(#[from] flags::BadCommandLine),
    #[error("--metrics-bind-address: {0}")]
    Metrics(#[from] BadHttpEndpoint),
    #[error("unexpected argument {0:?}; use flags only")]
    Argument(String),
    #[error("--disk is {0:?}, but it must be the number of a spare disk, which the self-test formats")]
    Disk(String),
}

/// Parses the command line, without the program name. If a flag is repeated, the last value counts, except that
/// `working-dir` accumulates.
pub fn read(arguments: impl IntoIterator<Item = impl Into<OsString>>) -> Result<Command, BadCommandLine> {
    let mut arguments = arguments.into_iter().map(Into::into).peekable();
    if arguments.next_if(|first| first.to_str() == Some(selftest::WORD)).is_some() {
        let asked = selftest::read(arguments)?;
        return Ok(asked.map_or_else(|| Command::Help(selftest::usage()), Command::Selftest));
    }
    let flags = CommandLine::<Flags>::read(arguments)?.flags;
    if let Some(word) = flags.words.first() {
        return Err(BadCommandLine::Argument(word.clone()));
    }
    if flags.help {
        return Ok(Command::Help(usage()));
    }
    if flags.version {
        return Ok(Command::Version);
    }
    settings(flags).map(|settings| Command::Run(Box::new(settings)))
}

fn settings(flags: Flags) -> Result<Settings, BadCommandLine> {
    let (working_dirs, mut warnings) = working_dirs(&flags);
    if flags.validate_paths == PathChecks::Legacy {
        warnings.push(
            "Insecure: --validate-paths=legacy lets clients use paths outside the working directories".to_owned(),
        );
    }
    Ok(Settings {
        working_dirs,
        windows_service: flags.windows_service,
        require_privacy: flags.require_privacy,
        metrics_bind_address: match flags.metrics_bind_address.as_str() {
            "" => None,
            address => Some(address.parse()?),
        },
        api_groups: flags.api_groups,
        pipe_security: flags.pipe_security_descriptor,
        insecure_pipe_acl: flags.insecure_pipe_acl,
        audit_log: match flags.audit_log.as_str() {
            "" => AuditTo::Log,
            "off" => AuditTo::Off,
            file => AuditTo::File(file.into()),
        },
        validate_paths: flags.validate_paths,
        allow_reformat: flags.allow_reformat,
        log: flags.log,
        warnings,
    })
}

fn usage() -> String {
    let about = "csi-proxy: storage of this node for CSI drivers in Windows containers";
    let tests = "csi-proxy selftest --help: test this machine's storage with a spare disk";
    flags::command::<Flags>("csi-proxy").about(about).after_help(tests).render_help().to_string()
}

fn working_dirs(flags: &Flags) -> (Vec<String>, Vec<String>) {
    let mut directories = flags.working_dir.clone();
    let mut warnings = Vec::new();
    let old =
        [("kubelet-csi-plugins-path", &flags.kubelet_csi_plugins_path), ("kubelet-pod-path", &flags.kubelet_pod_path)];
    for (flag, given) in old {
        for directory in given {
            warnings.push(format!("--{flag} is deprecated: use --working-dir={directory}"));
            directories.push(directory.clone());
        }
    }
    directories.push(flags.kubelet_path.clone());
    (directories, warnings)
}
