//! What a simulator is started with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ebs_types::ZoneName;

use crate::buckets::Limits;
use crate::config::{AccessKey, AccountSettings, Devices, EngineConfig, ZoneConfig};
use crate::iam::IamConfig;
use crate::scenario::Scenario;

/// Everything a [`super::Server`] needs to know; the command line fills the same fields.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Directory that holds state, backing files and the ledger; created when missing, used by one simulator at a time.
    pub state_dir: PathBuf,
    /// Where the EC2 API listens; port 0 takes a free one. Loopback only.
    pub ec2_listen: SocketAddr,
    /// Where the instance metadata service listens; port 0 takes a free one. Loopback only.
    pub imds_listen: SocketAddr,
    /// Where the control API listens; port 0 takes a free one. Loopback only.
    pub control_listen: SocketAddr,
    /// How long EC2 takes for things.
    pub timing: TimingMode,
    /// What stands for attached disks.
    pub devices: Devices,
    /// Type of both instances.
    pub instance_type: String,
    /// The zones of the region. With a single availability zone (and a local one for the second instance) a volume
    /// that nobody gave a place to is where the machine is.
    pub zones: Vec<ZoneConfig>,
    /// Zone of the machine's own instance.
    pub zone: ZoneName,
    /// Zone of the second instance; another one of the same region.
    pub second_zone: ZoneName,
    /// When given, only requests signed with it are accepted; else any credentials are.
    pub access_key: Option<AccessKey>,
    pub iam: IamConfig,
    /// Whether the metadata service also answers without a session token.
    pub imds_v1: bool,
    /// The token buckets; `None`: EC2's own with realistic timing, none with others.
    pub limits: Option<Limits>,
    /// Reads may show objects as they were up to this long ago; at most 15 s.
    pub max_lag: Duration,
    /// Encryption, keys, quotas.
    pub account: AccountSettings,
    /// All random choices but ids of volumes with devices come from it; `None`: every run differs.
    pub seed: Option<u64>,
    /// What happens when, from the start on.
    pub scenario: Scenario,
}

impl ServerConfig {
    /// Defaults: free ports on 127.0.0.1, instant timing, no devices, an m5.large in us-west-2a, any credentials, all
    /// calls allowed and audited.
    pub fn new(state_dir: impl Into<PathBuf>) -> Self {
        let free = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        Self {
            state_dir: state_dir.into(),
            ec2_listen: free,
            imds_listen: free,
            control_listen: free,
            timing: TimingMode::Instant,
            devices: Devices::None,
            instance_type: "m5.large".to_owned(),
            zones: EngineConfig::default().zones,
            zone: ZoneName::parse("us-west-2a").expect("a zone name by its rule"),
            second_zone: ZoneName::parse("us-west-2b").expect("a zone name by its rule"),
            access_key: None,
            iam: IamConfig::default(),
            imds_v1: false,
            limits: None,
            max_lag: Duration::ZERO,
            account: AccountSettings::default(),
            seed: None,
            scenario: Scenario::default(),
        }
    }
}

/// How long the simulated EC2 takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TimingMode {
    /// Every change of state is over at once.
    Instant,
    /// As long as EC2 usually takes, calls included, with EC2's rate limits.
    Realistic,
    /// As the scenario says; at once until it says something.
    Scripted,
}
