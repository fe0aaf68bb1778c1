//! The command line: the flags of the official registrar, with one dash or two.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use component_base::flags::{BadCommandLine, CommandLine, command, value};
use component_base::http::{BadHttpEndpoint, HttpEndpoint};
use component_base::logs::{BadLogFlags, LogFlags, LogFormat, LogSettings};

use crate::address::{Address, BadAddress};
use crate::platform::Platform;
use crate::version;

/// The argument that selects the probe mode of earlier releases.
const PROBE: &str = "kubelet-registration-probe";

#[derive(Debug, Args)]
struct Flags {
    /// Address of the driver: /PATH, unix:///PATH, or on Windows unix://C:\PATH
    #[arg(long, default_value = "/run/csi/socket", value_name = "ADDRESS")]
    csi_address: String,
    /// Required: path of the driver's socket on the node, passed to the kubelet unchanged
    #[arg(long, default_value = "", value_name = "PATH")]
    kubelet_registration_path: String,
    /// Directory where the kubelet's plugins_registry is mounted
    #[arg(long, default_value = "/registration", value_name = "DIRECTORY")]
    plugin_registration_path: String,
    /// Timeout of a GetPluginInfo call to the driver, and of a whole health check
    #[arg(long, default_value = "1s", value_name = "DURATION", value_parser = value::positive_duration)]
    timeout: Duration,
    /// Address of /healthz: HOST:PORT or :PORT; empty disables it
    #[arg(long, default_value = "", value_name = "ADDRESS")]
    http_endpoint: String,
    /// Deprecated: use --http-endpoint=:PORT; 0 disables it
    #[arg(long, default_value = "0", value_name = "PORT", value_parser = port)]
    health_port: u16,
    /// Serve /debug/pprof/ at the HTTP endpoint: arguments, threads and memory, but no profiles
    #[arg(long)]
    enable_pprof: bool,
    /// kubelet-registration-probe: exit immediately with 0, for probes of earlier releases
    #[arg(long, default_value = "", value_name = "MODE")]
    mode: String,
    /// Ignored, as in earlier releases
    #[arg(long, default_value = "0", value_name = "DURATION", value_parser = value::duration)]
    connection_timeout: Duration,
    /// Ignored: the registrar has one thread
    #[arg(long)]
    automaxprocs: bool,
    /// Print the version and exit
    #[arg(long)]
    version: bool,
    /// Print this help and exit
    #[arg(long, alias = "h")]
    help: bool,
    /// Verbosity of the log: 2 for operators, 5 shows each request, 7 shows everything
    #[arg(long, default_value = "0", value_name = "LEVEL", value_parser = value::level)]
    v: u32,
    /// Verbosity of individual source files, by patterns of their names; text format only
    #[arg(long, default_value = "", value_name = "PATTERN=N,…")]
    vmodule: String,
    /// Format of the log lines, text or json
    #[arg(long, default_value = "text", value_name = "FORMAT", hide_possible_values = true)]
    logging_format: LogFormat,
    #[command(flatten)]
    log: LogFlags,
    /// Arguments that are not flags. They are ignored with a warning.
    #[arg(hide = true)]
    words: Vec<String>,
}

/// Parses a port. Like the official registrar, treats a negative port as not set.
fn port(text: &str) -> Result<u16, String> {
    u16::try_from(value::integer(text)?.max(0)).map_err(|_| "it must be a port from 1 to 65535, or 0".to_owned())
}

#[derive(Debug)]
pub(crate) enum Job {
    Version,
    Help,
    Probe,
    Register(Settings),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) driver: Address,
    /// The endpoint that the kubelet receives, unchanged.
    pub(crate) endpoint: String,
    pub(crate) registration: Place,
    /// The timeout of a single call.
    pub(crate) timeout: Duration,
    pub(crate) http: Option<HttpEndpoint>,
    /// Whether to also serve `/debug/pprof/`.
    pub(crate) diagnostics: bool,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// A socket in this directory, named after the driver.
    Directory(String),
    /// TCP on loopback, for tests on systems without local sockets.
    Tcp(SocketAddr),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error(transparent)]
    Flags(#[from] BadCommandLine),
    #[error(transparent)]
    Log(#[from] BadLogFlags),
    #[error("--http-endpoint: {0}")]
    Http(#[from] BadHttpEndpoint),
    #[error("--{flag} {value:?} {cause}")]
    Address {
        flag: &'static str,
        value: String,
        /// The problem, as the end of a sentence.
        cause: BadAddress,
    },
    #[error(
        "--plugin-registration-path is empty; set it to the directory where the kubelet's plugins_registry is mounted"
    )]
    NoDirectory,
    #[error(
        "--kubelet-registration-path is missing; set it to the driver's socket on the node, such as /var/lib/kubelet/plugins/DRIVER/csi.sock"
    )]
    NoEndpoint,
    #[error("--http-endpoint and --health-port are both set; remove --health-port, which is deprecated")]
    TwoHealthPorts,
}

impl Refused {
    /// Returns the exit code: 1 for errors for which the official registrar returns 1, otherwise 2.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoEndpoint | Self::TwoHealthPorts => 1,
            Self::Flags(_) | Self::Log(_) | Self::Http(_) | Self::Address { .. } | Self::NoDirectory => 2,
        }
    }
}

/// Returns the task, the settings of the log, and notes about flags without effect.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<(Job, LogSettings, Vec<String>), Refused> {
    let line = CommandLine::<Flags>::read(arguments)?;
    let flags = &line.flags;
    let log = flags.log.settings(flags.logging_format, flags.v, &flags.vmodule)?;
    // Check the settings even for a probe, so that mistakes in its command line are reported.
    let job = match settings(flags) {
        _ if flags.help => Job::Help,
        _ if flags.version => Job::Version,
        Ok(_) | Err(Refused::TwoHealthPorts) if flags.mode == PROBE => Job::Probe,
        settings => Job::Register(settings?),
    };
    Ok((job, log, without_effect(&line)))
}

pub(crate) fn usage() -> String {
    let about = "Registers a CSI driver with the kubelet of its node.";
    command::<Flags>(version::NAME).about(about).render_help().to_string()
}

fn settings(flags: &Flags) -> Result<Settings, Refused> {
    if flags.kubelet_registration_path.is_empty() {
        return Err(Refused::NoEndpoint);
    }
    let driver = Address::parse(&flags.csi_address, Platform::HERE);
    Ok(Settings {
        driver: driver.map_err(refused("csi-address", &flags.csi_address))?,
        endpoint: flags.kubelet_registration_path.clone(),
        registration: place(&flags.plugin_registration_path)?,
        timeout: flags.timeout,
        http: http(flags)?,
        diagnostics: flags.enable_pprof,
    })
}

fn refused(flag: &'static str, value: &str) -> impl FnOnce(BadAddress) -> Refused {
    move |cause| Refused::Address { flag, value: value.to_owned(), cause }
}

fn place(path: &str) -> Result<Place, Refused> {
    match path {
        "" => Err(Refused::NoDirectory),
        tcp if tcp.starts_with("tcp:") => {
            match Address::parse(tcp, Platform::HERE).map_err(refused("plugin-registration-path", tcp))? {
                Address::Tcp(address) => Ok(Place::Tcp(address)),
                Address::Local(_) => Err(Refused::NoDirectory),
            }
        }
        directory => Ok(Place::Directory(directory.to_owned())),
    }
}

fn http(flags: &Flags) -> Result<Option<HttpEndpoint>, Refused> {
    match (flags.http_endpoint.as_str(), flags.health_port) {
        ("", 0) => Ok(None),
        ("", port) => Ok(Some(format!(":{port}").parse()?)),
        (endpoint, 0) => Ok(Some(endpoint.parse()?)),
        _ => Err(Refused::TwoHealthPorts),
    }
}

/// Returns a note for each flag that is accepted but has no effect, or less effect than in the official registrar.
fn without_effect(line: &CommandLine<Flags>) -> Vec<String> {
    let flags = &line.flags;
    let has_http = !flags.http_endpoint.is_empty() || flags.health_port != 0;
    let unknown_mode = format!("--mode={} is ignored: unknown mode", flags.mode);
    let notes = [
        (line.is_given("connection_timeout"), "--connection-timeout is ignored, as in earlier releases"),
        (line.is_given("automaxprocs"), "--automaxprocs is ignored: the registrar has one thread"),
        (line.is_given("health_port"), "--health-port is deprecated: use --http-endpoint=:PORT"),
        (!["", PROBE].contains(&flags.mode.as_str()), unknown_mode.as_str()),
        (flags.enable_pprof && !has_http, "--enable-pprof is ignored without --http-endpoint"),
    ];
    let ignored = flags.words.iter().map(|word| {
        format!(
            "argument {word:?} is ignored; write the value of a boolean flag after an equals sign, as in --flag=false"
        )
    });
    let given = notes.into_iter().filter(|(given, _)| *given).map(|(_, note)| note);
    given.chain(flags.log.without_effect()).map(str::to_owned).chain(ignored).collect()
}

#[cfg(test)]
mod tests;
