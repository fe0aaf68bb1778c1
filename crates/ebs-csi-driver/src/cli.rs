//! The command line: the reference driver's modes and flags, and a few additional ones.

mod checks;
mod flags;
mod misplaced;
mod system;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use component_base::flags::{as_in_go, given, value as values};
use component_base::http::HttpEndpoint;
use ebs_driver::config::Mode;
use ebs_driver::controller::ControllerOptions;
use ebs_driver::server::Endpoint;
use ebs_ec2::DriverName;
use ebs_metadata::{LimitFlags, SourceKind};
use ebs_telemetry::{LogConfig, TlsFiles};

use flags::{AwsFlags, CommonFlags, ControllerFlags, NodeFlags};
use system::Platform;

const NAME: &str = "aws-ebs-csi-driver";
const MODES: &str = "Modes:
  all              controller and node services in one process (the default)
  controller       identity and controller services
  node             identity and node services
  metadataLabeler  label Node objects with instance metadata
  pre-stop-hook    wait until the volumes of a draining node are detached";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Driver(Mode),
    Labeler,
    PreStopHook,
}

const ROLES: [Role; 5] = [
    Role::Driver(Mode::All),
    Role::Driver(Mode::Controller),
    Role::Driver(Mode::Node),
    Role::Labeler,
    Role::PreStopHook,
];

#[derive(Debug, Clone)]
pub(crate) struct Flags {
    role: Role,
    given: BTreeSet<String>,
    common: CommonFlags,
    aws: Option<AwsFlags>,
    controller: Option<ControllerFlags>,
    node: Option<NodeFlags>,
}

#[derive(Debug, Clone)]
pub(crate) enum Job {
    Serve(Box<DriverSettings>),
    LabelNodes(Settings),
    AwaitDetachments(HookSettings),
}

#[derive(Debug, Clone)]
pub(crate) struct HttpSettings {
    pub(crate) endpoint: HttpEndpoint,
    /// The TLS certificate and its key. Without them, the pages are served over plain HTTP.
    pub(crate) tls: Option<TlsFiles>,
}

#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) driver: DriverName,
    pub(crate) http: Option<HttpSettings>,
    /// The address of `/healthz` alone.
    pub(crate) health: Option<HttpEndpoint>,
    /// A kubeconfig file. `None`: use the service account of the pod.
    pub(crate) kubeconfig: Option<PathBuf>,
    pub(crate) metadata_sources: Vec<SourceKind>,
    pub(crate) user_agent_extra: Option<String>,
    pub(crate) log_aws_bodies: bool,
    pub(crate) shutdown_timeout: Duration,
}

#[derive(Debug, Clone)]
pub(crate) struct DriverSettings {
    pub(crate) common: Settings,
    pub(crate) mode: Mode,
    pub(crate) endpoint: Endpoint,
    pub(crate) endpoint_mode: u32,
    pub(crate) controller: ControllerOptions,
    pub(crate) batching: bool,
    pub(crate) deprecated_metrics: bool,
    pub(crate) node: Option<NodeSettings>,
}

/// Settings of the pre-stop hook, which serves nothing and exits by itself.
#[derive(Debug, Clone)]
pub(crate) struct HookSettings {
    pub(crate) driver: DriverName,
    /// A kubeconfig file. `None`: use the service account of the pod.
    pub(crate) kubeconfig: Option<PathBuf>,
}

#[derive(Debug, Clone)]
pub(crate) struct NodeSettings {
    pub(crate) limits: LimitFlags,
    #[cfg_attr(all(windows, not(test)), expect(dead_code, reason = "for Linux"))]
    pub(crate) legacy_xfs: bool,
    /// On Linux: directory of the records that must survive a restart.
    #[cfg_attr(all(windows, not(test)), expect(dead_code, reason = "for Linux"))]
    pub(crate) state_dir: Option<PathBuf>,
    /// The disk metrics include all volumes mounted below this directory. On Windows, the driver may also mount there.
    pub(crate) mounts_below: Option<PathBuf>,
    /// On Windows: whether the process runs on the host, without csi-proxy.
    #[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "for Windows"))]
    pub(crate) host_process: bool,
    /// On Windows with another project's csi-proxy: whether to format disks that are not proven blank.
    #[cfg_attr(not(any(windows, test)), expect(dead_code, reason = "for Windows"))]
    pub(crate) format_over_proxy: bool,
}

/// A rejected command line, or one such as `--help` that only prints text.
#[derive(Debug)]
pub(crate) struct Refused(clap::Error);

impl Refused {
    pub(crate) fn new(message: impl std::fmt::Display) -> Self {
        Self(command().error(ErrorKind::ValueValidation, message))
    }

    /// Prints the error to standard error (help: to standard output) and returns the exit code: 2, or 0 for help.
    pub(crate) fn report(&self) -> u8 {
        // If the standard streams are closed, the error cannot be reported.
        drop(self.0.print());
        if self.0.use_stderr() { 2 } else { 0 }
    }
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

impl Flags {
    /// Parses the arguments. The first one is the program's name.
    pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, Refused> {
        let mut arguments: Vec<OsString> = arguments.into_iter().collect();
        let names_mode = arguments.get(1).is_some_and(|first| !first.to_string_lossy().starts_with('-'));
        if !names_mode {
            arguments.insert(arguments.len().min(1), "all".into());
        }
        if arguments.len() == 1 {
            arguments.insert(0, NAME.into());
        }
        let explained = |error| Refused(misplaced::explain(error, &mut command()));
        let mut matches = command().try_get_matches_from(arguments).map_err(explained)?;
        let (mode, matches) = matches.remove_subcommand().ok_or_else(|| Refused::new("missing mode"))?;
        let role = ROLES.into_iter().find(|role| role.mode().0 == mode);
        let role = role.ok_or_else(|| Refused::new(format!("unknown mode {mode}")))?;
        Self::of_mode(role, matches).map_err(Refused)
    }

    fn of_mode(role: Role, mut matches: ArgMatches) -> Result<Self, clap::Error> {
        let matches = &mut matches;
        let given = given(matches);
        Ok(Self {
            role,
            given,
            common: CommonFlags::from_arg_matches_mut(matches)?,
            aws: role.calls_aws().then(|| AwsFlags::from_arg_matches_mut(matches)).transpose()?,
            controller: role.has_controller().then(|| ControllerFlags::from_arg_matches_mut(matches)).transpose()?,
            node: role.has_node().then(|| NodeFlags::from_arg_matches_mut(matches)).transpose()?,
        })
    }

    pub(crate) fn asks_for_version(&self) -> bool {
        self.common.version
    }

    pub(crate) fn traces(&self) -> bool {
        self.common.enable_otel_tracing
    }

    pub(crate) fn log(&self, rust_log: Option<String>) -> Result<LogConfig, Refused> {
        checks::log(&self.common, rust_log)
    }

    /// Checks all flags together. Logs a warning for each flag that is accepted but has no effect.
    pub(crate) fn check(&self) -> Result<Job, Refused> {
        checks::job(self, Platform::HERE)
    }
}

impl Role {
    fn mode(self) -> (&'static str, &'static str) {
        match self {
            Self::Driver(Mode::All) => ("all", "Controller and node services in one process (the default)"),
            Self::Driver(Mode::Controller) => ("controller", "Identity and controller services"),
            Self::Driver(Mode::Node) => ("node", "Identity and node services"),
            Self::Labeler => ("metadataLabeler", "Label Node objects with instance metadata"),
            Self::PreStopHook => ("pre-stop-hook", "Wait until the volumes of a draining node are detached"),
        }
    }

    fn has_controller(self) -> bool {
        matches!(self, Self::Driver(mode) if mode.has_controller())
    }

    fn calls_aws(self) -> bool {
        self.has_controller() || self == Self::Labeler
    }

    fn has_node(self) -> bool {
        matches!(self, Self::Driver(Mode::All | Mode::Node))
    }

    /// Returns the subcommand with the mode's flags, which it parses like the reference driver.
    fn command(self) -> Command {
        let (name, help) = self.mode();
        let mut command = CommonFlags::augment_args(Command::new(name));
        if self.calls_aws() {
            command = AwsFlags::augment_args(command);
        }
        if self.has_controller() {
            command = ControllerFlags::augment_args(command);
        }
        if self.has_node() {
            command = NodeFlags::augment_args(command);
        }
        // Set the help text last: the doc comment of a group of flags would replace it.
        as_in_go(command).about(help).override_usage(usage(name)).after_help(MODES)
    }
}

fn usage(mode: &str) -> String {
    format!("{NAME} [{mode}] [FLAGS]")
}

fn command() -> Command {
    Command::new(NAME)
        .about("Amazon EBS volumes for container orchestrators (CSI)")
        .override_usage(usage("MODE"))
        .disable_help_subcommand(true)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommands(ROLES.map(Role::command))
}

#[cfg(test)]
mod tests;
