//! The stored state: plain types without rules. The other modules implement the rules.

mod instance;
mod past;
mod snapshot;
mod volume;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

use crate::api::{ACCOUNT_ID, SimVolume};
use crate::config::{AccountSettings, BurntToken, EngineConfig, Timing, ZoneConfig};

use super::effects::Effect;
use super::random::Random;
use super::timing::Times;

pub(super) use instance::{Instance, InstancePhase, LISTED_AFTERWARDS, Launched, ROOT_DEVICE, hypervisor};
pub(super) use past::{MAX_LAG, PastVersions};
pub(super) use snapshot::{End, FastRestore, Lock, Mode, Snapshot, SnapshotPhase};
pub(super) use volume::{
    Attachment, AttachmentPhase, Device, Disturbance, Filling, Modification, ModificationPhase, Plan, Volume,
    VolumePhase, Way,
};
pub(super) use volumes::Volumes;

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sim {
    pub(super) format: u32,
    pub(super) account: Account,
    pub(super) instances: Vec<Instance>,
    pub(super) volumes: Volumes,
    pub(super) snapshots: BTreeMap<String, Snapshot>,
    pub(super) tokens: BTreeMap<String, Token>,
    /// Client tokens of RunInstances.
    pub(super) launches: BTreeMap<String, Launched>,
    /// Number of network interfaces created so far. Each gets its own address.
    pub(super) interfaces_made: u32,
    pub(super) ids: Random,
    /// Deleted snapshots whose data must stay because a volume is still being initialized from it.
    pub(super) unlisted_data: BTreeSet<String>,
    pub(super) times: Times,
    /// The configuration of the run. It is saved, because later inputs in the journal depend on it.
    pub(super) policy: Policy,
    #[serde(skip)]
    pub(super) effects: Vec<Effect>,
    /// Random choices for stale reads. They are not part of the saved state, because reads change nothing.
    #[serde(skip)]
    pub(super) lags: Random,
    #[serde(skip)]
    pub(super) past: PastVersions,
    /// The revision at which the state was last settled, and the next time at which it changes by itself.
    #[serde(skip)]
    pub(super) settled: Option<(u64, Option<SystemTime>)>,
    /// Increases with every change, so that an unchanged state need not be saved.
    #[serde(skip)]
    pub(super) revision: u64,
}

/// Limits and choices that come from the configuration of each run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(super) struct Policy {
    pub(super) max_volumes: usize,
    pub(super) max_snapshots: usize,
    pub(super) account: AccountSettings,
    pub(super) snapshot_interval: Option<Duration>,
    pub(super) modifications_per_day: Option<u32>,
    pub(super) burnt_token_repeats_reply: bool,
}

impl Sim {
    pub(super) fn touch(&mut self) {
        self.revision += 1;
    }

    pub(super) fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Account {
    pub(super) id: String,
    pub(super) region: String,
    pub(super) zones: Vec<ZoneConfig>,
}

impl Account {
    pub(super) fn new(config: &EngineConfig) -> Self {
        Self { id: ACCOUNT_ID.to_owned(), region: config.region.clone(), zones: config.zones.clone() }
    }

    pub(super) fn zone_named(&self, name: &str) -> Option<&ZoneConfig> {
        self.zones.iter().find(|z| z.name == name)
    }

    pub(super) fn zone_with_id(&self, id: &str) -> Option<&ZoneConfig> {
        self.zones.iter().find(|z| z.id == id)
    }
}

impl Policy {
    pub(super) fn of(config: &EngineConfig) -> Self {
        let realistic = config.timing == Timing::Realistic;
        Self {
            max_volumes: config.max_volumes,
            max_snapshots: config.max_snapshots,
            account: config.account.clone(),
            snapshot_interval: config.snapshot_interval.or(realistic.then_some(Duration::from_secs(15))),
            modifications_per_day: config.modifications_per_day.or(realistic.then_some(4)),
            burnt_token_repeats_reply: config.burnt_token == BurntToken::OldReply,
        }
    }
}

/// How long the token of a deleted volume stays unusable.
const BURNT_FOR: Duration = Duration::from_hours(12);

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Token {
    /// Action and parameters of the first call.
    pub(super) fingerprint: String,
    pub(super) volume: String,
    pub(super) gone: Option<EndedVolume>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct EndedVolume {
    pub(super) at: SystemTime,
    /// The last version of the volume, for replies that repeat the original reply.
    pub(super) volume: SimVolume,
}

impl Token {
    pub(super) fn is_over(&self, now: SystemTime) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.at + BURNT_FOR <= now)
    }
}
