//! LockSnapshot, UnlockSnapshot and DescribeLockedSnapshots. Source of the rules: the EBS user guide, "Amazon EBS snapshot lock".

use std::time::{Duration, SystemTime};

use crate::api::{DescribeLockedSnapshots, Fault, LockSnapshot, Reply, SimSnapshotLock, UnlockSnapshot};

use super::faults::{self, invalid_combination, invalid_value};
use super::filters::Filterable;
use super::ids::Kind;
use super::listings::Query;
use super::model::{End, Lock, Mode, Sim, SnapshotPhase};

const DAY: Duration = Duration::from_hours(24);
const COOL_OFF_HOURS: std::ops::RangeInclusive<i64> = 1..=72;
const DURATION_DAYS: std::ops::RangeInclusive<i64> = 1..=36_500;
pub(super) fn lock_snapshot(sim: &mut Sim, now: SystemTime, call: &LockSnapshot) -> Result<Reply, Fault> {
    let id = &call.snapshot_id;
    check_id(id)?;
    let mut lock = requested_lock(now, call)?;
    let snapshot = sim.snapshots.get_mut(id).ok_or_else(|| faults::no_such_snapshot(id))?;
    if let SnapshotPhase::Error { .. } = snapshot.phase {
        return Err(faults::incorrect_state(format!("Snapshot '{id}' is 'error'.")));
    }
    if let Some(old) = snapshot.lock.as_ref().filter(|old| old.holds(now)) {
        check_change(now, old, &lock)?;
        lock.created = old.created;
        lock.starts = old.starts;
        if old.state(now) == "compliance" {
            lock.cool_off_hours = old.cool_off_hours;
            lock.changed = old.changed;
        }
    }
    faults::unless_dry_run(call.dry_run)?;
    let reply = lock.describe(now, id, &sim.account.id);
    snapshot.lock = Some(lock);
    sim.touch();
    Ok(Reply::LockSnapshot(reply))
}

pub(super) fn unlock_snapshot(sim: &mut Sim, now: SystemTime, call: &UnlockSnapshot) -> Result<Reply, Fault> {
    let id = &call.snapshot_id;
    check_id(id)?;
    let snapshot = sim.snapshots.get_mut(id).ok_or_else(|| faults::no_such_snapshot(id))?;
    match snapshot.lock.as_ref().map(|lock| lock.state(now)) {
        // EC2 documents no code for this error.
        None | Some("expired") => return Err(faults::incorrect_state(format!("Snapshot '{id}' is not locked."))),
        Some("compliance") => {
            return Err(Fault::new(
                "OperationNotPermitted",
                "A snapshot that is locked in compliance mode cannot be unlocked after its cooling-off period.",
            ));
        }
        Some(_) => {}
    }
    faults::unless_dry_run(call.dry_run)?;
    snapshot.lock = None;
    sim.touch();
    Ok(Reply::UnlockSnapshot(call.snapshot_id.clone()))
}

/// Returns all locks by snapshot, including expired locks.
pub(super) fn snapshot_locks(sim: &Sim, now: SystemTime) -> impl Iterator<Item = SimSnapshotLock> {
    let owner = &sim.account.id;
    sim.snapshots.values().filter_map(move |s| s.lock.as_ref().map(|l| l.describe(now, &s.id, owner)))
}

pub(super) fn describe_locked_snapshots(
    sim: &mut Sim,
    now: SystemTime,
    call: &DescribeLockedSnapshots,
) -> Result<Reply, Fault> {
    let query = Query::of("DescribeLockedSnapshots", &call.snapshot_ids, &call.filters)
        .page(call.max_results, call.next_token.as_deref());
    query.check(Kind::Snapshot)?;
    if let Some(missing) = call.snapshot_ids.iter().find(|id| !sim.snapshots.contains_key(*id)) {
        return Err(faults::no_such_snapshot(missing));
    }
    faults::unless_dry_run(call.dry_run)?;
    let chosen: Vec<SimSnapshotLock> = snapshot_locks(sim, now).filter(|l| query.wants(&l.snapshot_id, l)).collect();
    Ok(Reply::DescribeLockedSnapshots(query.paged(chosen.into_iter(), |l| l.snapshot_id.clone())?))
}

fn check_id(id: &str) -> Result<(), Fault> {
    if id.is_empty() { Err(faults::missing("SnapshotId")) } else { Kind::Snapshot.check(id) }
}

fn requested_lock(now: SystemTime, call: &LockSnapshot) -> Result<Lock, Fault> {
    let mode = match call.lock_mode.as_deref().filter(|m| !m.is_empty()) {
        None => return Err(faults::missing("LockMode")),
        Some("governance") => Mode::Governance,
        Some("compliance") => Mode::Compliance,
        Some(other) => return Err(invalid_value(format!("Value ({other}) for parameter LockMode is invalid."))),
    };
    let cool_off_hours = match call.cool_off_period {
        None => None,
        Some(_) if mode == Mode::Governance => {
            return Err(invalid_combination("CoolOffPeriod cannot be given for the governance mode."));
        }
        Some(hours) if COOL_OFF_HOURS.contains(&hours) => u32::try_from(hours).ok(),
        Some(hours) => return Err(invalid_value(format!("CoolOffPeriod of {hours} hours is not within 1 to 72."))),
    };
    let end = match (call.lock_duration, call.expiration_date.as_deref().filter(|d| !d.is_empty())) {
        (Some(_), Some(_)) => return Err(invalid_combination("Give LockDuration or ExpirationDate, not both.")),
        (None, None) => return Err(faults::missing("LockDuration or ExpirationDate")),
        (Some(days), None) if DURATION_DAYS.contains(&days) => End::After(u32::try_from(days).unwrap_or(1)),
        (Some(days), None) => {
            return Err(invalid_value(format!("LockDuration of {days} days is not within 1 to 36500.")));
        }
        (None, Some(date)) => End::At(expiration(now, date)?),
    };
    Ok(Lock { mode, cool_off_hours, created: now, changed: now, starts: now, end })
}

fn expiration(now: SystemTime, date: &str) -> Result<SystemTime, Fault> {
    let at = humantime::parse_rfc3339_weak(date.trim())
        .map_err(|_| invalid_value(format!("Value ({date}) for parameter ExpirationDate is not a time.")))?;
    // The limit is the same as for a duration: at least a day, and at most a hundred years.
    let longest = now + DAY * 36_500;
    if at < now + DAY || at > longest {
        return Err(invalid_value(format!("ExpirationDate {date} must be at least one day ahead.")));
    }
    Ok(at)
}

/// Rejects a change of a compliance lock after its cooling-off period, except an extension.
fn check_change(now: SystemTime, old: &Lock, new: &Lock) -> Result<(), Fault> {
    if old.state(now) != "compliance" {
        return Ok(());
    }
    let refused = |why: &str| Err(Fault::new("OperationNotPermitted", why));
    if new.mode == Mode::Governance {
        return refused("The mode of a lock in compliance mode cannot be changed after its cooling-off period.");
    }
    if new.cool_off_hours.is_some() {
        return Err(invalid_combination(
            "CoolOffPeriod cannot be given for a snapshot that is already locked in compliance mode.",
        ));
    }
    let expires = Lock { starts: old.starts, ..new.clone() }.expires();
    if expires < old.expires() {
        return refused("The duration of a lock in compliance mode can only be increased.");
    }
    Ok(())
}

impl Filterable for SimSnapshotLock {
    fn field(&self, name: &str) -> Vec<String> {
        match name {
            "lock-state" => vec![self.state.clone()],
            _ => Vec::new(),
        }
    }
}
