//! The simulated EC2 as pure state: no clock, no files, no devices. It returns external actions as data ([`Effect`]). A
//! resource settles, that is, reaches its next state, when its time has passed and its data or device is in place.
//!
//! Decision: `docs/dev/decisions/0030-simulate-ec2-as-pure-state.md`.

mod account;
mod advance;
mod attachments;
mod cluster_nodes;
mod copies;
mod disks;
mod dispatch;
mod effects;
mod encryption;
mod fast_restore;
mod fault_injection;
mod faults;
mod filters;
mod ids;
mod initialization;
mod instances;
mod listings;
mod locks;
mod model;
mod modifications;
mod named;
mod outposts;
mod paging;
mod places;
mod quotas;
mod random;
mod resume;
mod rights;
mod shape;
mod snapshots;
mod stale_reads;
mod status;
mod tags;
#[cfg(test)]
mod tests;
mod timing;
mod tokens;
mod volumes;

pub(crate) use effects::{Effect, Outcome, Source};
pub(crate) use model::Sim;
pub(crate) use places::is_type_name;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

use crate::api::{Call, Fault, Reply, StateView};
use crate::config::{EngineConfig, TimingOverride};
use crate::faults::FaultInjection;

use model::{Account, PastVersions, Policy, Volumes};
use random::Random;
use timing::Times;

/// Version of the state file. The simulator rejects other versions.
const FORMAT: u32 = 2;

impl Sim {
    pub(crate) fn new(config: &EngineConfig, now: SystemTime) -> Self {
        let mut sim = Self {
            format: FORMAT,
            account: Account::new(config),
            instances: Vec::new(),
            volumes: Volumes::default(),
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
            past: PastVersions::lagging(config),
            settled: None,
            revision: 1,
        };
        account::launch(&mut sim, config, now);
        stale_reads::lag_from(&mut sim, now);
        sim
    }

    /// Parses a saved state, with the limits and times of the run that saved it.
    pub(crate) fn read(saved: &[u8]) -> Result<Self, String> {
        let mut sim: Self = serde_json::from_slice(saved).map_err(|e| format!("not the state of a simulator: {e}"))?;
        if sim.format != FORMAT {
            return Err(format!("unsupported format {}; this simulator uses format {FORMAT}", sim.format));
        }
        sim.revision = 1;
        Ok(sim)
    }

    /// Applies the limits and times of this run to a loaded state.
    pub(crate) fn adopt(&mut self, config: &EngineConfig) {
        self.ids = self.ids.clone().resumed(config.state_seed());
        self.times = Times::of(config);
        self.policy = Policy::of(config);
        self.lags = Random::new(config.seed, 4);
        self.past = PastVersions::lagging(config);
        self.touch();
    }

    pub(crate) fn save(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("the state is plain data")
    }

    /// Resumes incomplete work after a restart. Call it once at the start.
    pub(crate) fn resume(&mut self, now: SystemTime) {
        resume::resume(self, now);
    }

    /// Executes one call with injected faults. Its effects accumulate until [`Sim::take_effects`] returns them.
    pub(crate) fn apply(&mut self, now: SystemTime, call: Call, injection: &FaultInjection) -> Result<Reply, Fault> {
        fault_injection::apply(self, now, call, injection)
    }

    /// Returns the accumulated effects, oldest first.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    pub(crate) fn finish(&mut self, now: SystemTime, effect: &Effect, outcome: &Outcome) {
        advance::finish(self, now, effect, outcome);
    }

    pub(crate) fn advance(&mut self, now: SystemTime) {
        advance::advance(self, now);
    }

    /// Returns whether nothing has changed since the state was last settled, and nothing is due.
    pub(crate) fn is_settled(&self, now: SystemTime) -> bool {
        advance::is_settled(self, now)
    }

    /// Returns the next time at which the state changes without a call, or `None`.
    pub(crate) fn next_due(&self, now: SystemTime) -> Option<SystemTime> {
        advance::next_due(self, now)
    }

    /// Returns a number that increases with every change of the saved state.
    pub(crate) fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the position in the random number stream. Equal states with the same history have the same position.
    pub(crate) fn mark(&self) -> Option<u64> {
        self.ids.mark()
    }

    pub(crate) fn set_timing(&mut self, timing: TimingOverride) {
        self.times.replace(timing);
        self.touch();
    }

    pub(crate) fn timing(&self) -> TimingOverride {
        self.times.to_override()
    }

    /// Sets the default lag of reads. A read whose lag a fault rule sets may show older objects.
    pub(crate) fn set_max_lag(&mut self, now: SystemTime, max_lag: Duration) {
        self.past.set_max_lag(max_lag);
        stale_reads::lag_from(self, now);
    }

    pub(crate) fn max_lag(&self) -> Duration {
        self.past.max_lag
    }

    /// Keeps previous versions from now on, so that single reads can be made to lag ([`FaultInjection::lag`]).
    pub(crate) fn keep_past(&mut self, now: SystemTime) {
        stale_reads::keep_past(self, now);
    }

    pub(crate) fn release(&mut self, now: SystemTime, volume: &str, instance: Option<&str>) -> Result<(), Fault> {
        fault_injection::release(self, now, volume, instance)
    }

    /// Restores a device that vanished, and ends I/O errors.
    pub(crate) fn heal_device(&mut self, volume: &str) -> Result<(), Fault> {
        fault_injection::heal_device(self, volume)
    }

    /// Makes new volumes disappear, because EC2 checks the permission for a customer key only after it has replied.
    pub(crate) fn refuse_key(&mut self, volumes: &[String]) {
        for id in volumes {
            if let Some(volume) = self.volumes.get_mut(id) {
                volume.vanishes = true;
            }
        }
        self.touch();
    }

    /// Returns the volumes that must have devices on this machine.
    pub(crate) fn connected_volumes(&self) -> BTreeSet<String> {
        let volumes = self.volumes.values().filter(|v| v.attachments.iter().any(|a| a.backing.is_connected()));
        volumes.map(|v| v.id.clone()).collect()
    }

    pub(crate) fn volumes_with_data(&self) -> BTreeSet<String> {
        self.volumes.keys().cloned().collect()
    }

    /// Returns the snapshots that have data, including deleted snapshots from which volumes are still being
    /// initialized.
    pub(crate) fn snapshots_with_data(&self) -> BTreeSet<String> {
        self.snapshots.keys().chain(&self.unlisted_data).cloned().collect()
    }

    pub(crate) fn view(&self, now: SystemTime) -> StateView {
        StateView {
            volumes: self.volumes.values().map(|v| v.describe()).collect(),
            snapshots: self.snapshots.values().map(|s| s.describe(now, &self.account.id)).collect(),
            locks: locks::snapshot_locks(self, now).collect(),
            instances: self.instances.iter().map(|i| places::describe_instance(self, i)).collect(),
        }
    }
}
