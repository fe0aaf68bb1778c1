//! The configuration of an engine, from which the state is created.

mod access_key;
mod account;
mod oddities;

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::buckets::Limits;
use crate::iam::IamConfig;

pub use access_key::AccessKey;
pub(crate) use access_key::ValidKey;
pub use account::{AccountSettings, Quotas};
pub use oddities::Oddities;

/// The devices behind the disks of the machine's own instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Devices {
    /// Loop devices of this machine, with udev's links; requires root.
    Loop,
    /// No devices: attachments exist only in the simulated EC2.
    None,
}

/// How long EC2's operations take.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
pub enum Timing {
    /// State changes finish immediately.
    Instant,
    /// Calls and state changes take as long as in EC2, with EC2's rate limits.
    Realistic,
}

/// Explicit times in milliseconds. An absent value leaves the time unchanged.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimingOverride {
    /// `creating` → `available`.
    pub create_ms: Option<u64>,
    /// `deleting` → gone.
    pub delete_ms: Option<u64>,
    /// `attaching` → `attached`.
    pub attach_ms: Option<u64>,
    /// `detaching` → gone.
    pub detach_ms: Option<u64>,
    /// Snapshot `pending` → `completed`.
    pub snapshot_ms: Option<u64>,
    /// `modifying` → `optimizing`.
    pub modify_ms: Option<u64>,
    /// `optimizing` → `completed`.
    pub optimize_ms: Option<u64>,
    /// Time until a volume that was created from a snapshot or volume is fully initialized.
    pub fill_ms: Option<u64>,
    /// Instance `pending` → `running`, after a launch or a start.
    pub run_ms: Option<u64>,
    /// Instance `shutting-down` → `terminated`, and `stopping` → `stopped`.
    pub terminate_ms: Option<u64>,
    /// Maximum deviation of the transition times (`create_ms` to `terminate_ms`) in percent, up or down; 0 to 100. If
    /// it is absent, setting one of these times makes all of them exact.
    pub spread_percent: Option<u32>,
    /// Minimum and maximum duration of a mutating call itself.
    pub mutating_call_ms: Option<[u64; 2]>,
    /// Minimum and maximum duration of a call that only reads.
    pub describe_call_ms: Option<[u64; 2]>,
}

impl TimingOverride {
    pub(crate) fn sets_transitions(&self) -> bool {
        let times = [
            self.create_ms,
            self.delete_ms,
            self.attach_ms,
            self.detach_ms,
            self.snapshot_ms,
            self.modify_ms,
            self.optimize_ms,
            self.run_ms,
            self.terminate_ms,
            self.fill_ms,
        ];
        times.iter().any(Option::is_some)
    }

    /// Rejects invalid values.
    pub fn check(&self) -> Result<(), String> {
        if let Some(percent) = self.spread_percent.filter(|percent| *percent > 100) {
            return Err(format!("spread_percent: {percent} is more than 100"));
        }
        for (field, span) in [("mutating_call_ms", self.mutating_call_ms), ("describe_call_ms", self.describe_call_ms)]
        {
            if let Some([least, most]) = span
                && least > most
            {
                return Err(format!("{field}: minimum {least} exceeds maximum {most}"));
            }
        }
        Ok(())
    }
}

/// A zone of the simulated region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneConfig {
    /// Zone name, such as `us-west-2a`.
    pub name: String,
    /// Zone id, such as `usw2-az1`.
    pub id: String,
    /// Either `availability-zone` or `local-zone`.
    pub zone_type: String,
}

/// The configuration of an engine. If `state_dir` has the state of a previous run, that state keeps its zones and
/// instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Directory of the state and the data. `None` keeps the state in memory only, which requires `Devices::None`.
    pub state_dir: Option<PathBuf>,
    /// Whether attached volumes appear as devices.
    pub devices: Devices,
    /// Directory of udev's links: `/dev/disk/by-id`, except in tests.
    pub by_id_dir: PathBuf,
    /// Times and rate limits.
    pub timing: Timing,
    pub region: String,
    /// Availability zones and other zones.
    pub zones: Vec<ZoneConfig>,
    /// Zone of the first instance, which is this machine's own.
    pub zone: String,
    /// Zone of the second instance.
    pub second_zone: String,
    /// Type of both instances.
    pub instance_type: String,
    /// Maximum number of volumes of the account.
    pub max_volumes: usize,
    /// Maximum number of snapshots of the account.
    pub max_snapshots: usize,
    /// Minimum time between two snapshots of one volume. `None`: `timing` determines it (15 s when realistic).
    pub snapshot_interval: Option<Duration>,
    /// Maximum number of modifications of a volume in 24 h. `None`: `timing` determines it (4 when realistic, no limit
    /// when instant).
    pub modifications_per_day: Option<u32>,
    /// How EC2 replies to a client token whose volume no longer exists.
    pub burnt_token: BurntToken,
    /// Seed of all random choices. `None`: each run uses a new one. With loop devices, ids stay random.
    pub seed: Option<u64>,
    /// Encryption, keys and quotas of the account.
    pub account: AccountSettings,
    /// The maximum lag of reads.
    pub consistency: Consistency,
    /// The rates of the token buckets. `None`: `timing` determines them (EC2's defaults when realistic, no buckets when
    /// instant).
    pub limits: Option<Limits>,
    pub iam: IamConfig,
}

/// Eventual consistency of reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Consistency {
    /// Maximum age of an object that a read returns, at most 15 s. With zero, reads are current.
    pub max_lag: Duration,
}

/// The two replies that EC2 is known to give to a client token for 12 h after its volume has disappeared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BurntToken {
    /// `IdempotentParameterMismatch`.
    Mismatch,
    /// The original reply, with the id of a volume that no longer exists.
    OldReply,
}

impl Default for EngineConfig {
    /// Returns an in-memory configuration with instant timing, no devices, and m5.large in us-west-2a and us-west-2b.
    fn default() -> Self {
        let zone = |name: &str, id: &str, zone_type: &str| ZoneConfig {
            name: name.to_owned(),
            id: id.to_owned(),
            zone_type: zone_type.to_owned(),
        };
        Self {
            state_dir: None,
            devices: Devices::None,
            by_id_dir: PathBuf::from("/dev/disk/by-id"),
            timing: Timing::Instant,
            region: "us-west-2".to_owned(),
            zones: vec![
                zone("us-west-2-lax-1a", "usw2-lax1-az1", "local-zone"),
                zone("us-west-2a", "usw2-az1", "availability-zone"),
                zone("us-west-2b", "usw2-az2", "availability-zone"),
                zone("us-west-2c", "usw2-az3", "availability-zone"),
            ],
            zone: "us-west-2a".to_owned(),
            second_zone: "us-west-2b".to_owned(),
            instance_type: "m5.large".to_owned(),
            max_volumes: 100_000,
            max_snapshots: 100_000,
            snapshot_interval: None,
            modifications_per_day: None,
            burnt_token: BurntToken::Mismatch,
            seed: None,
            account: AccountSettings::default(),
            consistency: Consistency::default(),
            limits: None,
            iam: IamConfig::default(),
        }
    }
}

impl EngineConfig {
    /// Returns the seed of the state. With devices, the configured seed is not used, because all simulators of a
    /// machine share `/dev`. A persistent state always has a seed, because its journal is replayed.
    pub(crate) fn state_seed(&self) -> Option<u64> {
        let given = self.seed.filter(|_| self.devices == Devices::None);
        given.or_else(|| self.state_dir.as_ref().map(|_| rand::random()))
    }

    pub(crate) fn limits(&self) -> Limits {
        self.limits.clone().unwrap_or_else(|| match self.timing {
            Timing::Instant => Limits::off(),
            Timing::Realistic => Limits::ec2(),
        })
    }

    /// Rejects contradictory combinations.
    pub(crate) fn check(&self) -> Result<(), String> {
        if let Some(limits) = &self.limits {
            limits.check().map_err(|bad| bad.to_string())?;
        }
        if self.devices == Devices::Loop && self.state_dir.is_none() {
            return Err("loop devices require a state directory for their backing files".to_owned());
        }
        for zone in [&self.zone, &self.second_zone] {
            if !self.zones.iter().any(|z| z.name == *zone) {
                let known: Vec<&str> = self.zones.iter().map(|z| z.name.as_str()).collect();
                return Err(format!("zone {zone} not found; choose one of {}", known.join(", ")));
            }
        }
        if self.zone == self.second_zone {
            return Err(format!("both instances are in {}; choose another zone for the second one", self.zone));
        }
        Ok(())
    }
}
