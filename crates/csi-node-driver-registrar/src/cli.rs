//! The command line: the flags of the official registrar, with one dash or two.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::time::Duration;

use go_flags::{BadCommandLine, CommandLine, Flag, value};
use klog::{BadLogFlags, LogSettings};

use crate::address::{Address, BadAddress};
use crate::http_pages::HttpAddress;
use crate::platform::Platform;
use crate::version;

/// The probe mode of earlier releases.
const PROBE: &str = "kubelet-registration-probe";

/// The registrar's own flags, without those that the log library adds.
const OWN: [Flag; 12] = [
    Flag::value(
        "csi-address",
        "ADDRESS",
        "/run/csi/socket",
        "Address of the driver: /PATH, unix:///PATH, or on Windows unix://C:\\PATH",
    ),
    Flag::value(
        "kubelet-registration-path",
        "PATH",
        "",
        "Required: path of the driver's socket on the node, passed to the kubelet unchanged",
    ),
    Flag::value(
        "plugin-registration-path",
        "DIRECTORY",
        "/registration",
        "Directory where the kubelet's plugins_registry is mounted",
    ),
    Flag::value("timeout", "DURATION", "1s", "Timeout of the driver's GetPluginInfo and of a whole health check"),
    Flag::value("http-endpoint", "ADDRESS", "", "Address of /healthz: HOST:PORT or :PORT; empty: none"),
    Flag::value("health-port", "PORT", "0", "Deprecated: use --http-endpoint=:PORT; 0: none"),
    Flag::boolean(
        "enable-pprof",
        "Serve /debug/pprof/ at the HTTP endpoint: arguments, threads and memory, but no profiles",
    ),
    Flag::value(
        "mode",
        "MODE",
        "",
        "kubelet-registration-probe: exit immediately with 0, for probes of earlier releases",
    ),
    Flag::value("connection-timeout", "DURATION", "0", "Ignored, as in earlier releases"),
    Flag::boolean("automaxprocs", "Ignored: the registrar has one thread"),
    Flag::boolean("version", "Print the version and exit"),
    Flag::boolean("help", "Print this help and exit"),
];

/// The task of the process.
#[derive(Debug)]
pub(crate) enum Job {
    Version,
    Help,
    /// End at once.
    Probe,
    Register(Settings),
}

/// The settings of the registrar.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    pub(crate) driver: Address,
    /// Sent to the kubelet, unchanged.
    pub(crate) endpoint: String,
    pub(crate) registration: Place,
    /// Of a single call.
    pub(crate) timeout: Duration,
    pub(crate) http: Option<HttpAddress>,
    /// Whether to serve `/debug/pprof/` too.
    pub(crate) diagnostics: bool,
}

/// Where to serve the kubelet.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// At a socket in this directory with the name of the driver.
    Directory(String),
    /// For tests on systems without local sockets.
    Tcp(SocketAddr),
}

/// An invalid command line.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Refused {
    #[error("{0}")]
    Flags(BadCommandLine),
    #[error("{0}")]
    Log(BadLogFlags),
    #[error("--{flag} {value:?} {cause}")]
    Address {
        flag: &'static str,
        value: String,
        /// The end of the sentence.
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
    /// Returns the exit code: 1 for the errors where the official registrar returns 1, else 2.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::NoEndpoint | Self::TwoHealthPorts => 1,
            Self::Flags(_) | Self::Log(_) | Self::Address { .. } | Self::NoDirectory => 2,
        }
    }
}

/// Parses the arguments without the program's name. Returns the task, the settings of the log, and notes about flags
/// without effect.
pub(crate) fn read(arguments: impl IntoIterator<Item = OsString>) -> Result<(Job, LogSettings, Vec<String>), Refused> {
    let line = match CommandLine::read(&flags(), arguments) {
        Ok(line) if line.boolean("help") => return Ok((Job::Help, LogSettings::default(), Vec::new())),
        Err(BadCommandLine::Help) => return Ok((Job::Help, LogSettings::default(), Vec::new())),
        read => read.map_err(Refused::Flags)?,
    };
    let log = LogSettings::of(&line).map_err(Refused::Log)?;
    // Settings are also checked when the process ends early, so that a mistake is reported where it was made.
    let settings = settings(&line);
    let job = match settings {
        _ if line.boolean("version") => Job::Version,
        Ok(_) | Err(Refused::TwoHealthPorts) if line.text("mode") == PROBE => Job::Probe,
        settings => Job::Register(settings?),
    };
    Ok((job, log, without_effect(&line)))
}

/// Returns all flags, in the order of the usage text.
pub(crate) fn flags() -> Vec<Flag> {
    OWN.into_iter().chain(klog::FLAGS).collect()
}

pub(crate) fn usage() -> String {
    let about = "Registers a CSI driver with the kubelet of its node.";
    format!("{about}\n\n{}", go_flags::usage(version::NAME, &flags()))
}

fn settings(line: &CommandLine) -> Result<Settings, Refused> {
    let timeout = line.parsed("timeout", value::positive_duration).map_err(Refused::Flags)?;
    line.parsed("connection-timeout", value::duration).map_err(Refused::Flags)?;
    let endpoint = line.text("kubelet-registration-path").to_owned();
    if endpoint.is_empty() {
        return Err(Refused::NoEndpoint);
    }
    let refused = |flag| move |cause| Refused::Address { flag, value: line.text(flag).to_owned(), cause };
    let flag = "csi-address";
    let driver = Address::parse(line.text(flag), Platform::HERE).map_err(refused(flag))?;
    Ok(Settings {
        driver,
        endpoint,
        registration: place(line, refused("plugin-registration-path"))?,
        timeout,
        http: http(line)?,
        diagnostics: line.boolean("enable-pprof"),
    })
}

fn place(line: &CommandLine, refused: impl FnOnce(BadAddress) -> Refused) -> Result<Place, Refused> {
    match line.text("plugin-registration-path") {
        "" => Err(Refused::NoDirectory),
        tcp if tcp.starts_with("tcp:") => match Address::parse(tcp, Platform::HERE).map_err(refused)? {
            Address::Tcp(address) => Ok(Place::Tcp(address)),
            Address::Local(_) => Err(Refused::NoDirectory),
        },
        directory => Ok(Place::Directory(directory.to_owned())),
    }
}

fn http(line: &CommandLine) -> Result<Option<HttpAddress>, Refused> {
    let port = line.parsed("health-port", |text| {
        let port = value::integer(text)?;
        // The official registrar treats a negative port as not set.
        u16::try_from(port.max(0)).map_err(|_| "it must be a port from 1 to 65535, or 0".to_owned())
    });
    let port = port.map_err(Refused::Flags)?;
    match (line.text("http-endpoint"), port) {
        ("", 0) => Ok(None),
        ("", port) => HttpAddress::parse(&format!(":{port}")).map(Some).map_err(|must| {
            Refused::Flags(BadCommandLine::Value { flag: "health-port", value: port.to_string(), must })
        }),
        (_, 0) => line.parsed("http-endpoint", HttpAddress::parse).map(Some).map_err(Refused::Flags),
        _ => Err(Refused::TwoHealthPorts),
    }
}

/// Returns a line for each flag that is accepted but has no effect, or less than expected.
fn without_effect(line: &CommandLine) -> Vec<String> {
    let has_http = !line.text("http-endpoint").is_empty() || line.text("health-port") != "0";
    let mode = line.text("mode");
    let notes = [
        (line.is_given("connection-timeout"), "--connection-timeout is ignored, as in earlier releases".to_owned()),
        (line.is_given("automaxprocs"), "--automaxprocs is ignored: the registrar has one thread".to_owned()),
        (line.is_given("health-port"), "--health-port is deprecated: use --http-endpoint=:PORT".to_owned()),
        (!["", PROBE].contains(&mode), format!("--mode={mode} is ignored: unknown mode")),
        (line.boolean("enable-pprof") && !has_http, "--enable-pprof is ignored without --http-endpoint".to_owned()),
    ];
    let ignored = line.words().iter().map(|word| {
        format!(
            "argument {word:?} is ignored; write the value of a boolean flag after an equals sign, as in --flag=false"
        )
    });
    let given = notes.into_iter().filter(|(given, _)| *given).map(|(_, note)| note);
    given.chain(LogSettings::without_effect(line)).chain(ignored).collect()
}

#[cfg(test)]
mod tests;
