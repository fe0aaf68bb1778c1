//! The simulated EC2 as pure state: no clock, no files, no devices.
//!
//! [`Sim::apply`] executes a call at a given time, [`Sim::advance`] advances the time, and [`Sim::finish`] receives the
//! result of an [`Effect`] on the data plane. External actions are returned as data, and nothing here waits.
//!
//! A resource settles when two conditions hold: its time has passed, and its data or device is in place.
//!
//! Decision: `docs/decisions/0030-simulate-ec2-as-pure-state.md`.

mod account;
mod advance;
mod attachments;
mod cluster_nodes;
mod copies;
mod disks;
mod effects;
mod encryption;
mod fast_restore;
mod fault_injection;
mod faults;
mod filters;
mod ids;
mod instances;
mod listings;
mod locks;
mod model;
mod modifications;
mod named;
mod outposts;
mod paging;
mod past;
mod places;
mod quotas;
mod random;
mod resume;
mod rights;
mod shape;
mod snapshots;
mod status;
mod tags;
#[cfg(test)]
mod tests;
mod timing;
mod tokens;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::api::{Call, Fault, Reply, StateView};
use crate::config::{AccountSettings, EngineConfig, TimingOverride};

pub(crate) use effects::{Effect, Outcome, Source};

use account::Account;
use instances::{Instance, Started};
use model::{Snapshot, Volume};
use past::Past;
use random::Random;
use timing::Times;
use tokens::Token;

/// Version of the state file. Other versions are rejected.
const FORMAT: u32 = 2;

/// The complete simulated EC2.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sim {
    format: u32,
    account: Account,
    instances: Vec<Instance>,
    volumes: BTreeMap<String, Volume>,
    snapshots: BTreeMap<String, Snapshot>,
    tokens: BTreeMap<String, Token>,
    /// Client tokens of RunInstances.
    launches: BTreeMap<String, Started>,
    /// Number of network interfaces created so far: each has its own address.
    interfaces_made: u32,
    ids: Random,
    /// Data of deleted snapshots from which a volume is still being initialized.
    unlisted_data: BTreeSet<String>,
    times: Times,
    /// The configuration of the run. It is saved, because later inputs in the journal depend on it.
    policy: Policy,
    #[serde(skip)]
    effects: Vec<Effect>,
    /// Random choices of stale reads. They are not part of the state, because reads change nothing.
    #[serde(skip)]
    lags: Random,
    #[serde(skip)]
    past: Past,
    /// The settled revision, and until when nothing of it settles by itself.
    #[serde(skip)]
    settled: Option<(u64, Option<SystemTime>)>,
    /// Increases with every change, so that an unchanged state need not be saved.
    #[serde(skip)]
    revision: u64,
}

/// Limits and choices that come from the configuration of each run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub(crate) struct Policy {
    max_volumes: usize,
    max_snapshots: usize,
    account: AccountSettings,
    snapshot_interval: Option<std::time::Duration>,
    modifications_per_day: Option<u32>,
    burnt_token_repeats_reply: bool,
}

impl Sim {
    /// Creates a new account with two instances.
    pub(crate) fn new(config: &EngineConfig, now: SystemTime) -> Self {
        let mut sim = Self {
            format: FORMAT,
            account: Account::new(config),
            instances: Vec::new(),
            volumes: BTreeMap::new(),
            snapshots: BTreeMap::new(),
            tokens: BTreeMap::new(),
            launches: BTreeMap::new(),
            interfaces_made: 0,
            ids: Random::new(config.state_seed(), 1),
            unlisted_data: BTreeSet::new(),
            times: Times::of(config),
            policy: Policy::of(config),
            effects: Vec::new(),
            lags: Random::new(config.seed, 3),
            past: Past::lagging(config),
            settled: None,
            revision: 1,
        };
        sim.launch(config, now);
        sim.lag_from(now);
        sim
    }

    /// Executes one call. Effects accumulate until [`Sim::take_effects`].
    #[cfg(test)]
    pub(crate) fn apply(&mut self, now: SystemTime, call: Call) -> Result<Reply, Fault> {
        self.apply_with(now, call, &crate::faults::FaultInjection::default())
    }

    /// Executes one call on the current state.
    fn carry_out(&mut self, now: SystemTime, call: Call) -> Result<Reply, Fault> {
        match call {
            Call::CreateVolume(c) => self.create_volume(now, c),
            Call::CopyVolumes(c) => self.copy_volumes(now, c),
            Call::DeleteVolume(c) => self.delete_volume(now, &c),
            Call::DescribeVolumes(c) => self.describe_volumes(&c),
            Call::DescribeVolumeStatus(c) => self.describe_volume_status(now, &c),
            Call::AttachVolume(c) => self.attach_volume(now, &c),
            Call::DetachVolume(c) => self.detach_volume(now, &c),
            Call::ModifyVolume(c) => self.modify_volume(now, &c),
            Call::DescribeVolumesModifications(c) => self.describe_volumes_modifications(&c),
            Call::CreateSnapshot(c) => self.create_snapshot(now, &c),
            Call::DeleteSnapshot(c) => self.delete_snapshot(now, &c),
            Call::DescribeSnapshots(c) => self.describe_snapshots(now, &c),
            Call::CreateTags(c) => self.create_tags(&c),
            Call::DeleteTags(c) => self.delete_tags(&c),
            Call::DescribeTags(c) => self.describe_tags(&c),
            Call::DescribeInstances(c) => self.describe_instances(&c),
            Call::DescribeInstanceTypes(c) => self.describe_instance_types(&c),
            Call::DescribeAvailabilityZones(c) => self.describe_availability_zones(&c),
            Call::RunInstances(c) => self.run_instances(now, c),
            Call::StartInstances(c) => self.start_instances(now, &c),
            Call::StopInstances(c) => self.stop_instances(now, &c),
            Call::TerminateInstances(c) => self.terminate_instances(now, &c),
            Call::EnableFastSnapshotRestores(c) => self.enable_fast_restores(now, &c),
            Call::DisableFastSnapshotRestores(c) => self.disable_fast_restores(now, &c),
            Call::DescribeFastSnapshotRestores(c) => self.describe_fast_restores(now, &c),
            Call::LockSnapshot(c) => self.lock_snapshot(now, &c),
            Call::UnlockSnapshot(c) => self.unlock_snapshot(now, &c),
            Call::DescribeLockedSnapshots(c) => self.describe_locked_snapshots(now, &c),
            Call::AttachClusterNodeVolume(c) => self.attach_node_volume(now, &c),
            Call::DetachClusterNodeVolume(c) => self.detach_node_volume(now, &c),
        }
    }

    /// Returns the external actions, oldest first.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Returns a number that increases with every change of the saved state.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the position of the random choices. Equal states with the same history have the same position.
    pub(crate) fn mark(&self) -> Option<u64> {
        self.ids.mark()
    }

    /// Replaces times from now on.
    pub(crate) fn set_timing(&mut self, timing: TimingOverride) {
        self.times.replace(timing);
        self.touch();
    }

    pub(crate) fn timing(&self) -> TimingOverride {
        self.times.shown()
    }

    pub(crate) fn view(&self, now: SystemTime) -> StateView {
        StateView {
            volumes: self.volumes.values().map(|v| v.describe()).collect(),
            snapshots: self.snapshots.values().map(|s| s.describe(now, &self.account)).collect(),
            locks: self.snapshot_locks(now).collect(),
            instances: self.instances.iter().map(|i| self.describe_instance(i)).collect(),
        }
    }

    fn touch(&mut self) {
        self.revision += 1;
    }

    fn emit(&mut self, effect: Effect) {
        self.effects.push(effect);
    }
}
