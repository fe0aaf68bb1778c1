//! Resumes the state of a previous run: incomplete work is repeated, or undone where no client has seen it.

use std::collections::BTreeSet;
use std::time::SystemTime;

use crate::config::EngineConfig;

use super::effects::{Effect, Source};
use super::model::{Attachment, AttachmentPhase, Device, ModificationPhase, SnapshotPhase, VolumePhase};
use super::past::Past;
use super::random::Random;
use super::timing::Times;
use super::{FORMAT, Policy, Sim};

impl Sim {
    /// Parses a saved state, with the limits and times of the run that saved it.
    ///
    /// # Errors
    /// A sentence for people.
    pub(crate) fn read(saved: &[u8]) -> Result<Self, String> {
        let mut sim: Self = serde_json::from_slice(saved).map_err(|e| format!("not the state of a simulator: {e}"))?;
        if sim.format != FORMAT {
            return Err(format!("unsupported format {}, this simulator writes {FORMAT}", sim.format));
        }
        sim.revision = 1;
        Ok(sim)
    }

    /// Applies the limits and times of this run.
    pub(crate) fn adopt(&mut self, config: &EngineConfig) {
        self.ids = self.ids.clone().resumed(config.state_seed());
        self.times = Times::of(config);
        self.policy = Policy::of(config);
        self.lags = Random::new(config.seed, 4);
        self.past = Past::lagging(config);
        self.touch();
    }

    /// Calls [`Self::read`] and [`Self::adopt`].
    #[cfg(test)]
    pub(crate) fn load(saved: &[u8], config: &EngineConfig) -> Result<Self, String> {
        let mut sim = Self::read(saved)?;
        sim.adopt(config);
        Ok(sim)
    }

    pub(crate) fn save(&self) -> Vec<u8> {
        serde_json::to_vec(self).expect("the state is plain data")
    }

    /// Returns the volumes whose devices belong on this machine.
    pub(crate) fn connected_volumes(&self) -> BTreeSet<String> {
        let connected = |d: &Device| !matches!(d, Device::None | Device::Absent | Device::Vanished);
        let volumes = self.volumes.values().filter(|v| v.attachments.iter().any(|a| connected(&a.backing)));
        volumes.map(|v| v.id.clone()).collect()
    }

    /// Returns the volumes that have data.
    pub(crate) fn volumes_with_data(&self) -> BTreeSet<String> {
        self.volumes.keys().cloned().collect()
    }

    /// Returns the snapshots that have data, including deleted ones that are still read.
    pub(crate) fn snapshots_with_data(&self) -> BTreeSet<String> {
        self.snapshots.keys().chain(&self.unlisted_data).cloned().collect()
    }

    /// Resumes after a restart. Call it once at the start.
    pub(crate) fn resume(&mut self, now: SystemTime) {
        self.lag_from(now);
        self.touch();
        // The call for these copies has not been answered, and its point in time is lost.
        self.snapshots.retain(|_, s| !matches!(s.phase, SnapshotPhase::Pending { copied: false, .. }));
        let lost: Vec<String> = self
            .volumes
            .values()
            .filter(|v| {
                v.source_volume_id.is_some() && matches!(v.phase, VolumePhase::Creating { data_ready: false, .. })
            })
            .map(|v| v.id.clone())
            .collect();
        for id in lost {
            self.volumes.remove(&id);
            self.forget_tokens_of(&id);
            self.emit(Effect::DeleteBacking { volume: id });
        }
        let mut effects = Vec::new();
        for volume in self.volumes.values_mut() {
            let id = volume.id.clone();
            if let VolumePhase::Creating { data_ready: false, .. } = volume.phase {
                let source = volume.snapshot_id.clone().map_or(Source::Blank, Source::Snapshot);
                effects.push(Effect::CreateBacking { volume: id.clone(), gib: volume.size_gib, source });
            }
            if let Some(m) = &volume.modification
                && let ModificationPhase::Modifying { grown: false, .. } = m.phase
            {
                effects.push(Effect::Grow { volume: id.clone(), gib: m.target.size_gib });
            }
            let there = |a: &&mut Attachment| !matches!(a.backing, Device::None | Device::Vanished);
            for attachment in volume.attachments.iter_mut().filter(there) {
                let instance = attachment.instance_id.clone();
                match attachment.phase {
                    AttachmentPhase::Attaching { .. } => attachment.backing = Device::Absent,
                    AttachmentPhase::Attached => {
                        attachment.backing = Device::Connecting;
                        let (linked, breakable) = (attachment.linked, attachment.io_will_fail());
                        effects.push(Effect::Connect { volume: id.clone(), instance, linked, breakable });
                    }
                    AttachmentPhase::Detaching { .. } => {
                        attachment.backing = Device::Disconnecting(String::new());
                        let force = attachment.forced;
                        effects.push(Effect::Disconnect { volume: id.clone(), instance, force });
                    }
                }
            }
        }
        self.effects.append(&mut effects);
        self.advance(now);
    }
}
