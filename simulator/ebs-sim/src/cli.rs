//! The command line. It is checked before the simulator opens or writes anything.

#[cfg(test)]
mod tests;

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use clap::Parser;

use crate::buckets::Limits;
use crate::config::{AccessKey, AccountSettings, Consistency, Devices, EngineConfig, Timing};
use crate::iam::{IamConfig, Policy, PolicyError};
use crate::server::ServerConfig;
use crate::state::is_type_name;

/// A simulated EC2 for Amazon EBS volumes: API, instance metadata and disks, on this machine alone.
///
/// It listens on 127.0.0.1 and speaks the EC2 Query API: the AWS CLI, boto3, the SDKs and CSI drivers work against it
/// unchanged. It never contacts AWS. When it is ready, it writes its addresses to the env file.
#[derive(Debug, Parser)]
#[command(name = "ebs-sim", version, about, after_long_help = EXAMPLES)]
pub struct Cli {
    /// Directory for state and backing files; created if missing, used by one simulator at a time
    #[arg(long, value_name = "DIR")]
    pub state_dir: PathBuf,

    /// File with addresses and credentials for a shell to source: appears when the simulator is ready, and disappears
    /// when it stops
    #[arg(long, value_name = "FILE")]
    pub env_file: PathBuf,

    /// Address of the EC2 API [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub ec2_listen: Option<SocketAddr>,

    /// Address of the instance metadata service [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub imds_listen: Option<SocketAddr>,

    /// Address of the control API [default: a free port of 127.0.0.1]
    #[arg(long, value_name = "ADDR")]
    pub control_listen: Option<SocketAddr>,

    /// Duration of calls and state changes: none, or as in EC2
    #[arg(long, value_enum, default_value_t = Timing::Instant)]
    pub timing: Timing,

    /// Token buckets of the API: EC2's defaults, none, or a JSON file, {"enabled": true, "rates": {"CreateVolume":
    /// {"capacity": 100, "per_second": 5}}} [default: EC2's with --timing realistic, else none]
    #[arg(long, value_name = "default|off|FILE")]
    pub limits: Option<String>,

    /// Eventual consistency: maximum age of the objects that reads return, in milliseconds, at most 15000
    #[arg(long, value_name = "MS", default_value_t = 0, value_parser = clap::value_parser!(u64).range(..=15_000))]
    pub max_lag: u64,

    /// JSON file with settings of the account: encrypt_by_default, default_kms_key, unusable_kms_keys,
    /// machine_outpost, missing_volume_types, quotas, oddities
    #[arg(long, value_name = "FILE")]
    pub account: Option<PathBuf>,

    /// Repeat the random choices of another run: latencies, faults, and ids with --devices none
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,

    /// Devices of attached volumes on this machine: loop devices (requires root), or none
    #[arg(long, value_enum, default_value_t = Devices::Loop)]
    pub devices: Devices,

    /// Type of both instances
    #[arg(long, value_name = "T", default_value = "m5.large")]
    pub instance_type: String,

    /// Zone of the machine's own instance
    #[arg(long, value_name = "Z", default_value = "us-west-2a")]
    pub zone: String,

    /// Zone of the second instance [default: a zone other than the first]
    #[arg(long, value_name = "Z")]
    pub second_zone: Option<String>,

    /// Accept only requests signed with this key [default: accept any]
    #[arg(long, value_name = "ID:SECRET", value_parser = AccessKey::parse)]
    pub access_key: Option<AccessKey>,

    /// Accept only requests that carry this session token too, as with temporary credentials
    #[arg(long, value_name = "TOKEN", requires = "access_key")]
    pub session_token: Option<String>,

    /// Reject calls that this IAM policy does not allow; several policies are combined [default: allow everything]
    #[arg(long, value_name = "FILE")]
    pub policy: Vec<PathBuf>,

    /// Tag of the caller, for ${aws:PrincipalTag/KEY} in policies
    #[arg(long, value_name = "KEY=VALUE", value_parser = principal_tag)]
    pub principal_tag: Vec<(String, String)>,

    /// Record in the ledger which of the project's own policies allow each call
    #[arg(long)]
    pub audit_policies: bool,

    /// Also answer metadata requests without a session token
    #[arg(long)]
    pub imds_v1: bool,
}

const EXAMPLES: &str = "\
Examples:
  ebs-sim --state-dir /tmp/sim --env-file /tmp/sim.env --devices none &
  until [ -e /tmp/sim.env ]; do sleep 0.1; done; . /tmp/sim.env
  aws ec2 create-volume --availability-zone us-west-2a --size 4 --volume-type gp3
  curl -s $EBS_SIM_CONTROL/                        # the requests of the control API
  curl -s \"$EBS_SIM_CONTROL/ledger?since=0\"       # every call so far
  curl -s $EBS_SIM_CONTROL/faults -d '{\"actions\":[\"CreateVolume\"],\"times\":1,\"effect\":{\"kind\":\"lose-reply\"}}'

SIGTERM, SIGINT or POST /shutdown of the control API stop the simulator and remove its devices and the env file. The
next run in the same directory continues from the state, even after kill -9. RUST_LOG=debug logs more.
Exit codes: 0 after a clean shutdown, 1 after a failure, 2 for an invalid command line.";

/// A command line that the simulator cannot execute. The simulator has not started.
#[derive(Debug, thiserror::Error)]
pub enum CliError {
    /// The zone does not exist.
    #[error("{flag} {given}: zone not found; choose one of {known}")]
    Zone { flag: &'static str, given: String, known: String },
    /// Both instances are in this zone.
    #[error("--second-zone {0} is also the zone of the first instance; choose another zone")]
    SameZone(String),
    /// An invalid instance type.
    #[error("--instance-type {0:?} is not an instance type; use one like m5.large")]
    InstanceType(String),
    /// A file with invalid content.
    #[error("{flag} {path}: {why}")]
    Content {
        flag: &'static str,
        path: PathBuf,
        /// The problem.
        why: String,
    },
    /// A policy cannot be used.
    #[error("--policy")]
    Policy(#[from] PolicyError),
    /// The state directory cannot be used.
    #[error("--state-dir: {step} {path}")]
    StateDir { path: PathBuf, step: &'static str, source: io::Error },
    /// Loop devices are not available.
    #[error(
        "--devices loop requires {missing}; otherwise use --devices none (attachments then exist only in the simulated EC2)"
    )]
    Devices { missing: String },
}

impl CliError {
    /// Returns true when the command line is invalid, and false when the machine lacks a requirement.
    pub fn is_usage(&self) -> bool {
        !matches!(self, Self::StateDir { .. } | Self::Devices { .. })
    }
}

impl Cli {
    /// Checks everything and returns the configuration. Creates the state directory and changes nothing else.
    pub fn config(&self) -> Result<ServerConfig, CliError> {
        let zones = zones();
        let zone = find_zone("--zone", &self.zone, &zones)?;
        let second_zone = match &self.second_zone {
            Some(given) if *given == self.zone => return Err(CliError::SameZone(given.clone())),
            Some(given) => find_zone("--second-zone", given, &zones)?,
            None => zones.iter().find(|other| **other != zone).expect("a region has several zones").clone(),
        };
        if !is_type_name(&self.instance_type) {
            return Err(CliError::InstanceType(self.instance_type.clone()));
        }
        let limits = self.limits()?;
        let account = self.account()?;
        if self.devices == Devices::Loop {
            check_loop_devices()?;
        }
        let engine = EngineConfig {
            state_dir: Some(state_dir(&self.state_dir)?),
            devices: self.devices,
            timing: self.timing,
            zone,
            second_zone,
            instance_type: self.instance_type.clone(),
            limits,
            seed: self.seed,
            consistency: Consistency { max_lag: Duration::from_millis(self.max_lag) },
            account,
            iam: self.iam()?,
            ..EngineConfig::default()
        };
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let access_key = self.access_key.clone();
        Ok(ServerConfig {
            engine,
            ec2_listen: self.ec2_listen.unwrap_or(free),
            imds_listen: self.imds_listen.unwrap_or(free),
            control_listen: self.control_listen.unwrap_or(free),
            access_key: access_key.map(|key| AccessKey { session_token: self.session_token.clone(), ..key }),
            imds_v1: self.imds_v1,
        })
    }

    fn limits(&self) -> Result<Option<Limits>, CliError> {
        match self.limits.as_deref() {
            None => Ok(None),
            Some("default") => Ok(Some(Limits::ec2())),
            Some("off") => Ok(Some(Limits::off())),
            Some(file) => {
                let read = |json: &[u8]| {
                    let limits: Limits = serde_json::from_slice(json).map_err(|error| error.to_string())?;
                    limits.check().map_err(|bad| bad.to_string())?;
                    Ok(limits)
                };
                content("--limits", Path::new(file), read).map(Some)
            }
        }
    }

    fn account(&self) -> Result<AccountSettings, CliError> {
        let read = |json: &[u8]| serde_json::from_slice(json).map_err(|error| error.to_string());
        let file = self.account.as_deref();
        file.map_or_else(|| Ok(AccountSettings::default()), |file| content("--account", file, read))
    }

    fn iam(&self) -> Result<IamConfig, CliError> {
        let policies = self.policy.iter().map(|path| Policy::read(path)).collect::<Result<_, _>>()?;
        let principal_tags = self.principal_tag.iter().cloned().collect();
        Ok(IamConfig { policies, principal_tags, audit: self.audit_policies })
    }

    /// Returns a warning for each address that other machines can reach.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::new();
        for (flag, address) in [
            ("--ec2-listen", self.ec2_listen),
            ("--imds-listen", self.imds_listen),
            ("--control-listen", self.control_listen),
        ] {
            if let Some(address) = address.filter(|address| !address.ip().is_loopback()) {
                warnings.push(format!("{flag} {address} is reachable from other machines, without encryption"));
            }
        }
        warnings
    }
}

/// Returns the availability zones of the simulated region.
fn zones() -> Vec<String> {
    let all = EngineConfig::default().zones.into_iter();
    all.filter(|zone| zone.zone_type == "availability-zone").map(|zone| zone.name).collect()
}

fn principal_tag(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("expected KEY=VALUE".to_owned()),
    }
}

fn find_zone(flag: &'static str, given: &str, zones: &[String]) -> Result<String, CliError> {
    let found = zones.iter().find(|zone| *zone == given).cloned();
    found.ok_or_else(|| CliError::Zone { flag, given: given.to_owned(), known: zones.join(", ") })
}

/// Reads and parses a file.
fn content<T>(flag: &'static str, path: &Path, read: impl FnOnce(&[u8]) -> Result<T, String>) -> Result<T, CliError> {
    let bytes = fs::read(path).map_err(|error| format!("read: {error}"));
    bytes.and_then(|bytes| read(&bytes)).map_err(|why| CliError::Content { flag, path: path.to_owned(), why })
}

/// Creates the directory, checks that it is writable, and returns its absolute path. The simulator finds backing files
/// by that path.
fn state_dir(path: &Path) -> Result<PathBuf, CliError> {
    let failed = |step| move |source| CliError::StateDir { path: path.to_owned(), step, source };
    fs::create_dir_all(path).map_err(failed("create"))?;
    let absolute = fs::canonicalize(path).map_err(failed("find"))?;
    let probe = absolute.join(format!(".probe-{}", std::process::id()));
    fs::write(&probe, b"").and_then(|()| fs::remove_file(&probe)).map_err(failed("write into"))?;
    Ok(absolute)
}

fn check_loop_devices() -> Result<(), CliError> {
    let mut missing = Vec::new();
    if !rustix::process::geteuid().is_root() {
        missing.push("root (run the simulator with sudo)");
    }
    if !Path::new("/dev/loop-control").exists() {
        missing.push("/dev/loop-control (modprobe loop, or a container with access to loop devices)");
    }
    if missing.is_empty() { Ok(()) } else { Err(CliError::Devices { missing: missing.join(" and ") }) }
}
