//! The running simulator core: one owner of the state, on tokio's clock, with a data plane beside it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::api::{Call, Fault, Reply, SimInstance, SimSnapshot, SimVolume};

/// What stands behind attachments of the machine's own instance.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Devices {
    /// Nothing: no device appears, no data is kept, no root is needed.
    None,
    /// Loop devices over backing files in `<state-dir>/devices`, with links as udev makes them. Needs root.
    Loop,
}

/// How long EC2 takes for things.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Timing {
    /// Everything is done as soon as its data is in place; no rate limits of snapshots and modifications.
    Instant,
    /// About as long as EC2 usually takes, with its rate limits.
    Realistic,
}

/// Scripted times in milliseconds; what is absent keeps its present value.
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
}

/// A zone of the simulated region.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ZoneConfig {
    /// Name, `us-west-2a`.
    pub name: String,
    /// Id, `usw2-az1`.
    pub id: String,
    /// `availability-zone` or `local-zone`.
    pub zone_type: String,
}

/// What an engine is started with. State that a former run left in `state_dir` keeps its zones and instances.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EngineConfig {
    /// Where state and data live; `None`: in memory only (then `devices` must be `None`).
    pub state_dir: Option<PathBuf>,
    /// The data plane.
    pub devices: Devices,
    /// Where udev's links go: `/dev/disk/by-id` unless a test says otherwise.
    pub by_id_dir: PathBuf,
    /// Times and rate limits.
    pub timing: Timing,
    /// Region.
    pub region: String,
    /// Zones, availability zones and others.
    pub zones: Vec<ZoneConfig>,
    /// Zone of the machine's own instance, the first.
    pub zone: String,
    /// Zone of the second instance.
    pub second_zone: String,
    /// Type of both instances.
    pub instance_type: String,
    /// Most volumes of the account.
    pub max_volumes: usize,
    /// Most snapshots of the account.
    pub max_snapshots: usize,
    /// Least time between two snapshots of one volume; `None`: by `timing` (15 s when realistic).
    pub snapshot_interval: Option<Duration>,
    /// Most modifications of a volume in 24 h; `None`: by `timing` (4 when realistic, no limit when instant).
    pub modifications_per_day: Option<u32>,
    /// What a client token answers whose volume is gone.
    pub burnt_token: BurntToken,
}

/// The two answers that EC2 is known to give to a client token whose volume is gone; for 12 h.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum BurntToken {
    /// `IdempotentParameterMismatch`.
    Mismatch,
    /// The old reply, which names a volume that does not exist any more.
    OldReply,
}

impl Default for EngineConfig {
    /// In memory, no devices, instant, us-west-2 with two m5.large in us-west-2a and us-west-2b.
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
        }
    }
}

/// Everything there is, for the control API's `/state`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct StateView {
    /// Volumes by id, those being deleted included; attachments carry their loop device.
    pub volumes: Vec<SimVolume>,
    /// Snapshots by id.
    pub snapshots: Vec<SimSnapshot>,
    /// Instances, the machine's own first.
    pub instances: Vec<SimInstance>,
}

/// Why an engine did not start or not stop cleanly.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// Another simulator uses the state directory.
    #[error("another simulator uses {0}: stop it, or choose another --state-dir")]
    StateDirInUse(PathBuf),
    /// A file or directory could not be used.
    #[error("cannot {step} {path}")]
    Io {
        /// What was being done.
        step: &'static str,
        /// To what.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The configuration contradicts itself.
    #[error("{0}")]
    Config(String),
    /// The data plane could not be set up or taken down.
    #[error("{0}")]
    Plane(String),
    /// The engine has been shut down already.
    #[error("the simulator core has ended")]
    Ended,
}

/// The simulated EC2. Clones are handles on the same engine, which ends with [`Engine::shutdown`] or with its last
/// handle.
#[derive(Debug, Clone)]
pub struct Engine {
    config: EngineConfig,
}

impl Engine {
    /// Starts it: takes the state directory, loads the state of a former run, removes what that run left behind and
    /// connects what the state says is attached.
    ///
    /// # Errors
    /// [`EngineError`] says what is in the way.
    pub async fn start(config: EngineConfig) -> Result<Self, EngineError> {
        Ok(Self { config })
    }

    /// Carries out one call. Once it has been sent it is carried out, also when the returned future is dropped.
    ///
    /// # Errors
    /// The [`Fault`] that EC2 would answer with.
    pub async fn call(&self, call: Call) -> Result<Reply, Fault> {
        Err(Fault::with_status(500, "InternalError", format!("{} is not there yet", call.action())))
    }

    /// Everything there is, now.
    pub async fn snapshot_of_state(&self) -> StateView {
        StateView { volumes: Vec::new(), snapshots: Vec::new(), instances: Vec::new() }
    }

    /// Replaces times from now on; transitions under way keep theirs.
    pub async fn set_timing(&self, timing: TimingOverride) {
        let _ = timing;
    }

    /// Now, on the clock of the simulated EC2.
    pub fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    /// What it was started with.
    pub fn config(&self) -> &EngineConfig {
        &self.config
    }

    /// Directory of the backing files, when there is a state directory.
    pub fn devices_dir(&self) -> Option<PathBuf> {
        self.config.state_dir.as_ref().map(|dir| dir.join("devices"))
    }

    /// Waits for data being moved, disconnects all devices that nobody uses, removes the links and saves the state.
    ///
    /// # Errors
    /// [`EngineError`] names what was left behind.
    pub async fn shutdown(&self) -> Result<(), EngineError> {
        let _: BTreeMap<(), ()> = BTreeMap::new();
        Ok(())
    }
}
