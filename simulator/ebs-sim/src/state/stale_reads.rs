//! Eventual consistency: a stale read puts old versions into the state, executes the call, and restores the state.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use crate::api::{Call, Fault, Reply};

use super::dispatch::carry_out;
use super::faults;
use super::ids::Kind;
use super::model::{MAX_LAG, Sim};
use super::named::ids_of;
use super::random::Random;

/// Returns a random lag for one object in a read. It is zero for half of the objects, because most objects are current
/// in EC2.
fn random_lag(chance: &mut Random, max: Duration) -> Duration {
    if chance.below(2) == 0 {
        return Duration::ZERO;
    }
    Duration::from_millis(chance.below(u64::try_from(max.as_millis()).unwrap_or(0) + 1))
}

/// Puts objects into a map; `None` removes the object. Returns the previous values.
fn put<T>(map: &mut BTreeMap<String, T>, objects: Vec<(String, Option<T>)>) -> Vec<(String, Option<T>)> {
    let put = |(id, object): (String, Option<T>)| {
        let before = match object {
            Some(object) => map.insert(id.clone(), object),
            None => map.remove(&id),
        };
        (id, before)
    };
    objects.into_iter().map(put).collect()
}

/// Starts to record old versions, if reads may lag.
pub(super) fn lag_from(sim: &mut Sim, now: SystemTime) {
    if sim.past.can_lag() {
        keep_past(sim, now);
    }
}

/// Keeps old versions from now on, so that single reads can be made to lag ([`crate::faults::FaultInjection::lag`]).
pub(super) fn keep_past(sim: &mut Sim, now: SystemTime) {
    if !sim.past.kept {
        sim.past.kept = true;
        sim.past.noted = 0;
        record_changes(sim, now);
        // Objects that already exist have no older versions.
        sim.past.volumes.old.clear();
        sim.past.snapshots.old.clear();
        sim.past.instances.old.clear();
    }
}

pub(super) fn record_changes(sim: &mut Sim, now: SystemTime) {
    if !sim.past.kept || sim.past.noted == sim.revision {
        return;
    }
    sim.past.noted = sim.revision;
    sim.past.volumes.record(now, MAX_LAG, sim.volumes.iter());
    sim.past.snapshots.record(now, MAX_LAG, sim.snapshots.iter());
    let kept_for = sim.past.instances_max_lag.unwrap_or_default().max(MAX_LAG);
    sim.past.instances.record(now, kept_for, sim.instances.iter().map(|i| (&i.id, i)));
}

/// If [`crate::config::Oddities::changes_meet_the_lag`] is enabled, rejects a mutating call that names an object which
/// a stale read might not show yet.
pub(super) fn meet_lag(sim: &mut Sim, now: SystemTime, call: &Call) -> Result<(), Fault> {
    if !sim.policy.account.oddities.changes_meet_the_lag || !sim.past.kept {
        return Ok(());
    }
    for id in ids_of(call) {
        let at = now.checked_sub(random_lag(&mut sim.lags, sim.past.max_lag)).unwrap_or(now);
        match Kind::of(id) {
            Some(Kind::Volume) if !sim.past.volumes.has_known(id, at) => return Err(faults::no_such_volume(id)),
            Some(Kind::Snapshot) if !sim.past.snapshots.has_known(id, at) => return Err(faults::no_such_snapshot(id)),
            Some(Kind::Instance) if !sim.past.instances.has_known(id, at) => return Err(faults::no_such_instance(id)),
            _ => {}
        }
    }
    Ok(())
}

/// Executes a read with a forced lag, or with a random lag for each object.
pub(super) fn read_with_lag(
    sim: &mut Sim,
    now: SystemTime,
    call: Call,
    forced: Option<Duration>,
) -> Result<Reply, Fault> {
    if !sim.past.kept || (forced.is_none() && !sim.past.can_lag()) {
        return carry_out(sim, now, call);
    }
    let chance = &mut sim.lags;
    let mut lag = |max: Duration| match forced {
        Some(lag) => lag.min(MAX_LAG),
        None => random_lag(chance, max),
    };
    let (max, max_of_instances) = (sim.past.max_lag, sim.past.instances_max_lag.unwrap_or(sim.past.max_lag));
    let volumes = sim.past.volumes.changed_within(now, || lag(max));
    let snapshots = sim.past.snapshots.changed_within(now, || lag(max));
    let instances = sim.past.instances.changed_within(now, || lag(max_of_instances));
    let volumes = put(sim.volumes.as_map_mut(), volumes);
    let snapshots = put(&mut sim.snapshots, snapshots);
    let present = (!instances.is_empty()).then(|| {
        let mut seen = sim.instances.clone();
        for (id, was) in instances {
            let at = seen.iter().position(|i| i.id == id);
            match (at, was) {
                (Some(at), Some(was)) => seen[at] = was,
                (Some(at), None) => drop(seen.remove(at)),
                (None, Some(was)) => seen.push(was),
                (None, None) => {}
            }
        }
        std::mem::replace(&mut sim.instances, seen)
    });
    let reply = carry_out(sim, now, call);
    put(sim.volumes.as_map_mut(), volumes);
    put(&mut sim.snapshots, snapshots);
    if let Some(present) = present {
        sim.instances = present;
    }
    reply
}
