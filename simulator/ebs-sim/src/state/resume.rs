//! Resumes the state of a previous run. It repeats incomplete work, or undoes it if no client has seen it.

use std::time::SystemTime;

use super::advance::advance;
use super::effects::{Effect, Source};
use super::model::Sim;
use super::model::{Attachment, AttachmentPhase, Device, ModificationPhase, SnapshotPhase, VolumePhase};
use super::stale_reads::lag_from;
use super::tokens::forget_tokens_of;

/// Resumes incomplete work after a restart. Call it once at the start.
pub(super) fn resume(sim: &mut Sim, now: SystemTime) {
    lag_from(sim, now);
    sim.touch();
    // The calls that began these copies got no answer, and the data of that time can no longer be copied.
    sim.snapshots.retain(|_, s| !matches!(s.phase, SnapshotPhase::Pending { copied: false, .. }));
    let lost: Vec<String> = sim
        .volumes
        .values()
        .filter(|v| v.source_volume_id.is_some() && matches!(v.phase, VolumePhase::Creating { data_ready: false, .. }))
        .map(|v| v.id.clone())
        .collect();
    for id in lost {
        sim.volumes.remove(&id);
        forget_tokens_of(sim, &id);
        sim.emit(Effect::DeleteBacking { volume: id });
    }
    let mut effects = Vec::new();
    for volume in sim.volumes.values_mut() {
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
    sim.effects.append(&mut effects);
    advance(sim, now);
}
