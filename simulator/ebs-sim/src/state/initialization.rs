//! How long the initialization of volumes from snapshots and other volumes takes.

use std::time::{Duration, SystemTime};

use super::model::{Filling, Sim, Snapshot, Way};

/// Default initialization rate in MiB/s.
const DEFAULT_RATE: u64 = 250;
const MIB_PER_GIB: u64 = 1024;

pub(super) fn filled_from_snapshot(
    sim: &Sim,
    now: SystemTime,
    snapshot: &Snapshot,
    zone: &str,
    rate: Option<u32>,
) -> Filling {
    let (way, mib_per_second) = match rate {
        Some(rate) => (Way::ProvisionedRate, u64::from(rate)),
        None => (Way::Default, DEFAULT_RATE),
    };
    let time = if snapshot.is_fast_in(zone, now) {
        Duration::ZERO
    } else {
        sim.times.fill.unwrap_or_else(|| filling_time(snapshot.size_gib, mib_per_second))
    };
    let from = now + sim.times.create;
    Filling { way, from, until: from + time }
}

pub(super) fn filled_from_volume(sim: &Sim, now: SystemTime, gib: u32) -> Filling {
    let from = now + sim.times.create;
    let time = sim.times.fill.unwrap_or_else(|| filling_time(gib, DEFAULT_RATE));
    Filling { way: Way::VolumeCopy, from, until: from + time }
}

fn filling_time(gib: u32, mib_per_second: u64) -> Duration {
    Duration::from_secs((u64::from(gib) * MIB_PER_GIB).div_ceil(mib_per_second))
}
