//! The configuration of a simulator.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use ebs_ec2::ZoneName;

use crate::buckets::Limits;
use crate::config::{AccessKey, AccountSettings, Devices, EngineConfig, ZoneConfig};
use crate::iam::IamConfig;

/// The settings of a [`super::Server`]. The command line fills the same fields.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Directory for state, backing files and the ledger. Created if missing, used by one simulator at a time.
    pub state_dir: PathBuf,
    /// Address of the EC2 API; port 0 selects a free one. Loopback only.
    pub ec2_listen: SocketAddr,
    /// Address of the instance metadata service; port 0 selects a free one. Loopback only.
    pub imds_listen: SocketAddr,
    /// Address of the control API; port 0 selects a free one. Loopback only.
    pub control_listen: SocketAddr,
    /// How long EC2's operations take.
    pub timing: TimingMode,
    /// The devices behind attached disks.
    pub devices: Devices,
    /// Type of both instances.
    pub instance_type: String,
    /// The zones of the region. With a single availability zone (and a local one for the second instance), a volume
    /// without an explicit zone is where the machine is.
    pub zones: Vec<ZoneConfig>,
    /// Zone of the machine's own instance.
    pub zone: ZoneName,
    /// Zone of the second instance, which is another one of the same region.
    pub second_zone: ZoneName,
    /// If set, only requests signed with it are accepted. Otherwise any credentials are.
    pub access_key: Option<AccessKey>,
    pub iam: IamConfig,
    /// Also answer metadata requests without a session token.
    pub imds_v1: bool,
    /// The token buckets; `None`: EC2's own with realistic timing, otherwise none.
    pub limits: Option<Limits>,
    /// Maximum age of objects in reads, at most 15 s.
    pub max_lag: Duration,
    /// Encryption, keys, quotas.
    pub account: AccountSettings,
    /// Seed of all random choices except ids of volumes with devices; `None`: every run differs.
    pub seed: Option<u64>,
}

impl ServerConfig {
    /// Returns the defaults: free ports on 127.0.0.1, instant timing, no devices, an m5.large in us-west-2a, any
    /// credentials, and all calls allowed and audited.
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
        }
    }
}

/// How long the simulated EC2 takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum TimingMode {
    /// State changes finish immediately.
    Instant,
    /// Calls and state changes take as long as in EC2, with EC2's rate limits.
    Realistic,
}
