//! The device names, and how the controller chooses one for the next attachment.
//!
//! Decision: `docs/dev/decisions/0008-choose-device-names-in-the-controller.md`.

use std::collections::{HashMap, HashSet};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use ebs_ec2::{DeviceName, Instance, InstanceId, VolumeId};
use tokio::time::Instant;

use super::instance_cache;
use crate::timeouts::SETTLE;

/// How long to avoid a name that EC2 reported as in use although it listed no device with that name.
const LIKELY_BAD_LIFETIME: Duration = Duration::from_secs(3600);
/// How long an attachment with an unknown outcome keeps its device name, unless EC2 shows the outcome earlier.
const UNPROVEN_LIFETIME: Duration = Duration::from_secs(600);

/// The names that EC2 and all operating systems accept, in order of use. Instance types before Nitro accept only the
/// first 52 names, which suffice for them. `/dev/xvda` and `/dev/xvdc?` cause problems on Windows.
static NAMES: LazyLock<Vec<DeviceName>> = LazyLock::new(|| {
    let double =
        |first: char, last: char| (('a'..=last).map(move |c| format!("/dev/xvd{first}{c}"))).collect::<Vec<_>>();
    let single = |prefix: &'static str| ('b'..='z').map(move |c| format!("/dev/{prefix}{c}")).collect::<Vec<_>>();
    [double('a', 'z'), double('b', 'z'), double('d', 'x'), single("xvd"), single("sd"), vec!["/dev/sda2".to_owned()]]
        .concat()
        .into_iter()
        .map(DeviceName::new)
        .collect()
});

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Reservation {
    pub(crate) device: DeviceName,
    pub(crate) card: Option<u32>,
}

#[derive(Debug)]
struct InFlight {
    holds: Reservation,
    until: Instant,
}

#[derive(Debug, Default)]
struct InstanceNames {
    in_flight: HashMap<VolumeId, InFlight>,
    /// Names that EC2 reported as in use although it listed no such device, with the expiry of each. Oldest first.
    likely_bad: Vec<(DeviceName, Instant)>,
}

/// Device names that attachments in flight hold, and names that are likely bad, by instance.
#[derive(Debug, Default)]
pub(crate) struct DeviceNames {
    by_instance: Mutex<HashMap<InstanceId, InstanceNames>>,
}

impl DeviceNames {
    fn live(&self) -> MutexGuard<'_, HashMap<InstanceId, InstanceNames>> {
        let now = Instant::now();
        let mut by_instance = self.by_instance.lock().unwrap_or_else(PoisonError::into_inner);
        by_instance.retain(|_, names| {
            names.in_flight.retain(|_, entry| entry.until > now);
            names.likely_bad.retain(|(_, until)| *until > now);
            !(names.in_flight.is_empty() && names.likely_bad.is_empty())
        });
        by_instance
    }

    /// Reserves a free name and, on an instance with several cards, the card with the fewest volumes. A volume keeps
    /// its reservation after an attempt with an unknown outcome, unless EC2 lists the name as in use.
    pub(crate) fn reserve(&self, instance: &Instance, volume: &VolumeId, cards: u32) -> Option<Reservation> {
        let mut by_instance = self.live();
        let names = by_instance.entry(instance.id.clone()).or_default();
        if let Some(entry) = names.in_flight.remove(volume)
            && !instance.devices.iter().any(|d| d.device == entry.holds.device)
        {
            let holds = entry.holds.clone();
            names.in_flight.insert(volume.clone(), entry);
            return Some(holds);
        }
        let listed = instance.devices.iter().map(|d| &d.device);
        let in_use: HashSet<&DeviceName> = listed.chain(names.in_flight.values().map(|e| &e.holds.device)).collect();
        let likely_bad: Vec<&DeviceName> = names.likely_bad.iter().map(|(name, _)| name).collect();
        let device = pick(&in_use, &likely_bad)?.clone();
        let card = (cards > 1).then(|| emptiest_card(instance, &names.in_flight, cards));
        let holds = Reservation { device, card };
        let until = Instant::now() + UNPROVEN_LIFETIME;
        names.in_flight.insert(volume.clone(), InFlight { holds: holds.clone(), until });
        Some(holds)
    }

    pub(crate) fn holds(&self, instance: &InstanceId, volume: &VolumeId) -> bool {
        self.live().get(instance).is_some_and(|names| names.in_flight.contains_key(volume))
    }

    /// Records that EC2 shows the attachment. The reservation expires once every cached instance description must list
    /// the device name.
    pub(crate) fn record_attached(&self, instance: &InstanceId, volume: &VolumeId) {
        let mut by_instance = self.live();
        let Some(names) = by_instance.get_mut(instance) else { return };
        if let Some(entry) = names.in_flight.get_mut(volume) {
            entry.until = Instant::now() + SETTLE + instance_cache::LIFETIME;
            let name = entry.holds.device.clone();
            names.likely_bad.retain(|(bad, _)| *bad != name);
        }
    }

    pub(crate) fn release(&self, instance: &InstanceId, volume: &VolumeId) {
        if let Some(names) = self.live().get_mut(instance) {
            names.in_flight.remove(volume);
        }
    }

    pub(crate) fn mark_likely_bad(&self, instance: &InstanceId, device: &DeviceName) {
        let mut by_instance = self.live();
        let names = by_instance.entry(instance.clone()).or_default();
        names.likely_bad.retain(|(bad, _)| bad != device);
        names.likely_bad.push((device.clone(), Instant::now() + LIKELY_BAD_LIFETIME));
    }
}

/// Returns the first free name that is not likely bad, or else the free name that was marked as bad first.
fn pick<'a>(in_use: &HashSet<&DeviceName>, likely_bad: &[&'a DeviceName]) -> Option<&'a DeviceName> {
    let good = NAMES.iter().find(|name| !in_use.contains(name) && !likely_bad.contains(name));
    good.or_else(|| likely_bad.iter().find(|name| !in_use.contains(**name)).copied())
}

fn emptiest_card(instance: &Instance, in_flight: &HashMap<VolumeId, InFlight>, cards: u32) -> u32 {
    let is_listed = |volume: &VolumeId| instance.devices.iter().any(|d| d.volume.as_ref() == Some(volume));
    let listed = instance.devices.iter().filter_map(|d| d.card);
    let pending = in_flight.iter().filter(|(volume, _)| !is_listed(volume)).filter_map(|(_, e)| e.holds.card);
    let used: Vec<u32> = listed.chain(pending).collect();
    (0..cards).min_by_key(|card| used.iter().filter(|c| *c == card).count()).unwrap_or(0)
}

#[cfg(test)]
#[path = "device_name_tests.rs"]
mod tests;
