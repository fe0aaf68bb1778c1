//! CreateSnapshot, DeleteSnapshot, DescribeSnapshots.

use std::time::SystemTime;

use ebs_ec2::VolumeType;

use crate::api::{CreateSnapshot, DeleteSnapshot, DescribeSnapshots, Fault, Reply};

use super::effects::Effect;
use super::faults;
use super::ids::Kind;
use super::listings::{Owned, Query};
use super::model::Sim;
use super::model::{Snapshot, SnapshotPhase, Volume, VolumePhase};
use super::outposts::outpost_of_snapshot;
use super::tags::tags_for;
use super::volumes::volume_mut;

const MAX_DESCRIPTION: usize = 255;

pub(super) fn create_snapshot(sim: &mut Sim, now: SystemTime, call: &CreateSnapshot) -> Result<Reply, Fault> {
    let due = sim.times.due(now, sim.times.snapshot, Some(&call.volume_id));
    let description = call.description.clone().unwrap_or_default();
    if description.chars().count() > MAX_DESCRIPTION {
        return Err(faults::invalid_value(format!("A description has at most {MAX_DESCRIPTION} characters.")));
    }
    let tags = tags_for(&call.tag_specifications, Kind::Snapshot)?;
    volume_mut(sim, &call.volume_id)?;
    let outpost_arn = outpost_of_snapshot(sim, call, &sim.volumes[&call.volume_id])?;
    check_snapshot_limits(sim, now, &sim.volumes[&call.volume_id])?;
    faults::unless_dry_run(call.dry_run)?;
    let id = sim.ids.new_id(Kind::Snapshot);
    let volume = volume_mut(sim, &call.volume_id)?;
    volume.last_snapshot = Some(now);
    let snapshot = Snapshot {
        id,
        volume_id: volume.id.clone(),
        size_gib: volume.size_gib,
        phase: SnapshotPhase::Pending { due, copied: false },
        started: now,
        description,
        encrypted: volume.encrypted,
        kms_key_id: volume.kms_key_id.clone(),
        tags,
        outpost_arn,
        lock: None,
        fast_restores: Vec::new(),
    };
    sim.emit(Effect::CopyToSnapshot { volume: snapshot.volume_id.clone(), snapshot: snapshot.id.clone() });
    let reply = snapshot.describe(now, &sim.account.id);
    sim.snapshots.insert(snapshot.id.clone(), snapshot);
    sim.touch();
    Ok(Reply::CreateSnapshot(reply))
}

fn check_snapshot_limits(sim: &Sim, now: SystemTime, volume: &Volume) -> Result<(), Fault> {
    if volume.phase != VolumePhase::Ready {
        return Err(faults::incorrect_state(format!("The volume '{}' is '{}'.", volume.id, volume.state())));
    }
    if sim.snapshots.len() >= sim.policy.max_snapshots {
        return Err(Fault::new("SnapshotLimitExceeded", "You have exceeded your maximum number of snapshots."));
    }
    let pending = sim.snapshots.values().filter(|s| s.state() == "pending").count();
    if sim.policy.account.quotas.pending_snapshots.is_some_and(|most| pending >= most) {
        return Err(Fault::new(
            "PendingSnapshotLimitExceeded",
            format!("You have exceeded your maximum of {pending} pending snapshots in this region."),
        ));
    }
    let pending = sim.snapshots.values().filter(|s| s.volume_id == volume.id && s.state() == "pending").count();
    if pending >= concurrent_snapshots(&volume.volume_type) {
        return Err(Fault::new(
            "ConcurrentSnapshotLimitExceeded",
            "Maximum allowed in-progress snapshots for a single volume exceeded.",
        ));
    }
    let ready_at = volume.last_snapshot.zip(sim.policy.snapshot_interval).map(|(last, least)| last + least);
    if ready_at.is_some_and(|at| now < at) {
        return Err(Fault::new(
            "SnapshotCreationPerVolumeRateExceeded",
            "The maximum per volume CreateSnapshot request rate has been exceeded. \
             Use an increasing or variable sleep interval between requests.",
        ));
    }
    Ok(())
}

pub(super) fn delete_snapshot(sim: &mut Sim, now: SystemTime, call: &DeleteSnapshot) -> Result<Reply, Fault> {
    let id = &call.snapshot_id;
    if id.is_empty() {
        return Err(faults::missing("SnapshotId"));
    }
    Kind::Snapshot.check(id)?;
    let snapshot = sim.snapshots.get(id).ok_or_else(|| faults::no_such_snapshot(id))?;
    if snapshot.lock.as_ref().is_some_and(|lock| lock.holds(now)) {
        return Err(Fault::new("SnapshotLocked", format!("The snapshot '{id}' is locked and cannot be deleted.")));
    }
    let zones = snapshot.zones_with_fast_restores(now);
    if !zones.is_empty() {
        return Err(Fault::new(
            "InvalidSnapshot.InUse",
            format!(
                "The snapshot {id} is currently enabled for fast restores in {}. Fast snapshot restores must be \
                 disabled within all Availability Zones before the snapshot may be deleted.",
                zones.join(", ")
            ),
        ));
    }
    faults::unless_dry_run(call.dry_run)?;
    let snapshot = sim.snapshots.remove(id).expect("seen just now");
    sim.touch();
    if let SnapshotPhase::Pending { copied: false, .. } = snapshot.phase {
        // The data is still being copied, and is deleted after the copy.
        return Ok(Reply::DeleteSnapshot);
    }
    if sim.volumes.values().any(|v| is_filled_from(v, id)) {
        sim.unlisted_data.insert(id.clone());
    } else {
        sim.emit(Effect::DeleteSnapshotData { snapshot: id.clone() });
    }
    Ok(Reply::DeleteSnapshot)
}

/// Removes the data of a deleted snapshot when no volume is being initialized from it.
pub(super) fn release_unlisted_data(sim: &mut Sim) {
    let free: Vec<String> =
        sim.unlisted_data.iter().filter(|id| !sim.volumes.values().any(|v| is_filled_from(v, id))).cloned().collect();
    for snapshot in free {
        sim.unlisted_data.remove(&snapshot);
        sim.emit(Effect::DeleteSnapshotData { snapshot });
    }
}

pub(super) fn describe_snapshots(sim: &Sim, now: SystemTime, call: &DescribeSnapshots) -> Result<Reply, Fault> {
    let query = Query::of("DescribeSnapshots", &call.snapshot_ids, &call.filters)
        .page(call.max_results, call.next_token.as_deref())
        .with_tokens_after_full_pages(sim.policy.account.oddities.tokens_after_full_pages);
    query.check(Kind::Snapshot)?;
    if let Some(missing) = call.snapshot_ids.iter().find(|id| !sim.snapshots.contains_key(*id)) {
        return Err(faults::no_such_snapshot(missing));
    }
    faults::unless_dry_run(call.dry_run)?;
    let ours = |ids: &[String]| ids.is_empty() || ids.iter().any(|o| o == "self" || *o == sim.account.id);
    let visible = ours(&call.owner_ids) && ours(&call.restorable_by);
    let chosen = sim
        .snapshots
        .values()
        .filter(|s| visible && query.wants(&s.id, &Owned(s, &sim.account.id)))
        .map(|s| s.describe(now, &sim.account.id));
    Ok(Reply::DescribeSnapshots(query.paged(chosen, |s| s.id.clone())?))
}

fn is_filled_from(volume: &Volume, snapshot: &str) -> bool {
    volume.snapshot_id.as_deref() == Some(snapshot)
        && matches!(volume.phase, VolumePhase::Creating { data_ready: false, .. })
}

fn concurrent_snapshots(volume_type: &VolumeType) -> usize {
    match volume_type {
        VolumeType::St1 | VolumeType::Sc1 => 1,
        VolumeType::Gp2
        | VolumeType::Gp3
        | VolumeType::Io1
        | VolumeType::Io2
        | VolumeType::Standard
        | VolumeType::Other(_) => 5,
    }
}
