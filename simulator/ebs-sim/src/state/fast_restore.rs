//! EnableFastSnapshotRestores, DisableFastSnapshotRestores and DescribeFastSnapshotRestores. Source: the EBS user guide, "fast snapshot restore".

use std::collections::BTreeSet;
use std::time::{Duration, SystemTime};

use crate::api::{
    DescribeFastSnapshotRestores, DisableFastSnapshotRestores, EnableFastSnapshotRestores, Fault, Reply,
    SimFastRestore, SimFastRestoreError, SimFastRestores,
};
use crate::config::ZoneConfig;

use super::faults::{self, invalid_combination};
use super::filters::Filterable;
use super::ids::Kind;
use super::listings::Query;
use super::model::{FastRestore, Sim};

const MAX_PAGE: i64 = 200;
/// EC2 does not support fast restore of snapshots larger than this.
const MAX_SIZE_GIB: u32 = 16 * 1024;
const MAX_SNAPSHOTS: usize = 10;
/// Optimising takes an hour per TiB.
const OPTIMIZE_PER_GIB: Duration = Duration::from_millis(3_600_000 / 1024);
pub(super) fn enable_fast_restores(
    sim: &mut Sim,
    now: SystemTime,
    call: &EnableFastSnapshotRestores,
) -> Result<Reply, Fault> {
    let zones = zones(&call.source_snapshot_ids, &call.availability_zones, &call.availability_zone_ids)?;
    faults::unless_dry_run(call.dry_run)?;
    let answer = each_pair(&call.source_snapshot_ids, zones, |id, zone| enable_fast_restore(sim, now, id, zone));
    sim.touch();
    Ok(Reply::EnableFastSnapshotRestores(answer))
}

pub(super) fn disable_fast_restores(
    sim: &mut Sim,
    now: SystemTime,
    call: &DisableFastSnapshotRestores,
) -> Result<Reply, Fault> {
    let zones = zones(&call.source_snapshot_ids, &call.availability_zones, &call.availability_zone_ids)?;
    faults::unless_dry_run(call.dry_run)?;
    let answer = each_pair(&call.source_snapshot_ids, zones, |id, zone| disable_fast_restore(sim, now, id, zone));
    sim.touch();
    Ok(Reply::DisableFastSnapshotRestores(answer))
}

fn disable_fast_restore(
    sim: &mut Sim,
    now: SystemTime,
    id: &str,
    zone: &str,
) -> Result<SimFastRestore, SimFastRestoreError> {
    let off = sim.times.due(now, sim.times.enable_fast_restore, Some(id));
    let refused = |fault: Fault| SimFastRestoreError {
        zone: zone.to_owned(),
        zone_id: String::new(),
        code: fault.code,
        message: fault.message,
    };
    let snapshot = sim.snapshots.get_mut(id).ok_or_else(|| refused(faults::no_such_snapshot(id)))?;
    let mut all = snapshot.fast_restores.iter_mut();
    let Some(on) = all.find(|f| (f.zone == zone || f.zone_id == zone) && f.disabled.is_none()) else {
        // EC2 documents no code for this error.
        let message = format!("Fast snapshot restore is not enabled for '{id}' in {zone}.");
        return Err(refused(faults::incorrect_state(message)));
    };
    on.disabled = Some((now, off));
    let zone = on.zone.clone();
    let mut all = snapshot.fast_restores(now, &sim.account.id);
    let answer = all.find(|f| f.zone == zone).expect("found just now");
    // The first reply shows the request as in progress.
    let state = "disabling".to_owned();
    Ok(SimFastRestore { state, reason: "Client.UserInitiated".to_owned(), disabled_time: None, ..answer })
}

fn enable_fast_restore(
    sim: &mut Sim,
    now: SystemTime,
    id: &str,
    zone: &str,
) -> Result<SimFastRestore, SimFastRestoreError> {
    let found = sim.account.zone_named(zone).or_else(|| sim.account.zone_with_id(zone)).cloned();
    let refused = |code: &str, message: String| SimFastRestoreError {
        zone: zone.to_owned(),
        zone_id: found.as_ref().map(|z| z.id.clone()).unwrap_or_default(),
        code: code.to_owned(),
        message,
    };
    let Some(ZoneConfig { name, id: zone_id, zone_type }) = found.clone() else {
        return Err(refused("InvalidParameterValue", format!("Invalid availability zone: [{zone}]")));
    };
    if zone_type != "availability-zone" {
        return Err(refused("UnsupportedOperation", format!("Fast snapshot restore is not supported in {zone}.")));
    }
    let on = |f: &&FastRestore| f.zone == name && f.disabled.is_none();
    let used = sim.snapshots.values().flat_map(|s| &s.fast_restores).filter(on).count();
    let Some(snapshot) = sim.snapshots.get_mut(id) else {
        let fault = faults::no_such_snapshot(id);
        return Err(refused(&fault.code, fault.message));
    };
    if snapshot.size_gib > MAX_SIZE_GIB {
        return Err(refused("UnsupportedOperation", format!("Snapshot '{id}' is larger than 16 TiB.")));
    }
    if !snapshot.fast_restores.iter().any(|f| on(&f)) {
        if sim.policy.account.quotas.fast_restores.is_some_and(|most| used >= most) {
            return Err(refused(
                "FastSnapshotRestoreLimitExceeded",
                format!("You have reached the limit of {used} snapshots with fast snapshot restore in {zone}."),
            ));
        }
        let optimizing = sim.times.due(now, sim.times.enable_fast_restore, Some(id));
        let work =
            if sim.times.enable_fast_restore.is_zero() { Duration::ZERO } else { OPTIMIZE_PER_GIB * snapshot.size_gib };
        let enabled = optimizing + work;
        let zone = name.clone();
        snapshot.fast_restores.retain(|f| f.zone != name);
        snapshot.fast_restores.push(FastRestore { zone, zone_id, enabling: now, optimizing, enabled, disabled: None });
    }
    let mut all = snapshot.fast_restores(now, &sim.account.id);
    let mut enabled = all.find(|f| f.zone == name).expect("put there just now");
    drop(all);
    // The first reply shows the request as in progress.
    if enabled.enabling_time == now {
        (enabled.state, enabled.reason) = ("enabling".to_owned(), "Client.UserInitiated".to_owned());
        (enabled.optimizing_time, enabled.enabled_time) = (None, None);
    }
    Ok(enabled)
}

pub(super) fn describe_fast_restores(
    sim: &mut Sim,
    now: SystemTime,
    call: &DescribeFastSnapshotRestores,
) -> Result<Reply, Fault> {
    if let Some(asked) = call.max_results.filter(|n| !(0..=MAX_PAGE).contains(n)) {
        return Err(faults::bad_page_size(asked, 0, MAX_PAGE));
    }
    let page = call.max_results.filter(|n| *n > 0).or(Some(MAX_PAGE));
    let query =
        Query::of("DescribeFastSnapshotRestores", &[], &call.filters).page_from(1, page, call.next_token.as_deref());
    query.check(Kind::Snapshot)?;
    faults::unless_dry_run(call.dry_run)?;
    let owner = &sim.account.id;
    let all: Vec<SimFastRestore> = sim.snapshots.values().flat_map(|s| s.fast_restores(now, owner)).collect();
    let chosen = all.into_iter().filter(|f| query.wants("", f));
    let listing = query.paged(chosen, |f| format!("{} {}", f.snapshot_id, f.zone))?;
    Ok(Reply::DescribeFastSnapshotRestores(listing))
}

/// Checks the number of snapshots and their ids, and returns the zones that the call names.
fn zones<'a>(snapshots: &[String], names: &'a [String], ids: &'a [String]) -> Result<&'a [String], Fault> {
    if snapshots.is_empty() {
        return Err(faults::missing("SourceSnapshotIds"));
    }
    if snapshots.len() > MAX_SNAPSHOTS {
        let message =
            format!("Number of values of parameter SourceSnapshotIds must be less than or equal to {MAX_SNAPSHOTS}.");
        return Err(Fault::new("InvalidRequest", message));
    }
    let zones = match (names.is_empty(), ids.is_empty()) {
        (true, true) => return Err(faults::missing("AvailabilityZones")),
        (false, false) => {
            return Err(invalid_combination("Give AvailabilityZones or AvailabilityZoneIds, not both."));
        }
        (false, true) => names,
        (true, false) => ids,
    };
    snapshots.iter().try_for_each(|id| Kind::Snapshot.check(id))?;
    Ok(zones)
}

/// Applies `change` to each snapshot in each zone. A failure does not affect the other pairs.
fn each_pair(
    snapshots: &[String],
    zones: &[String],
    mut change: impl FnMut(&str, &str) -> Result<SimFastRestore, SimFastRestoreError>,
) -> SimFastRestores {
    let mut answer = SimFastRestores::default();
    for id in snapshots.iter().collect::<BTreeSet<_>>() {
        let mut errors = Vec::new();
        for zone in zones.iter().collect::<BTreeSet<_>>() {
            match change(id, zone) {
                Ok(changed) => answer.successful.push(changed),
                Err(error) => errors.push(error),
            }
        }
        if !errors.is_empty() {
            answer.unsuccessful.push((id.clone(), errors));
        }
    }
    answer
}

impl Filterable for SimFastRestore {
    fn field(&self, name: &str) -> Vec<String> {
        match name {
            "availability-zone" => vec![self.zone.clone()],
            "availability-zone-id" => vec![self.zone_id.clone()],
            "owner-id" => vec![self.owner_id.clone()],
            "snapshot-id" => vec![self.snapshot_id.clone()],
            "state" => vec![self.state.clone()],
            _ => Vec::new(),
        }
    }
}
