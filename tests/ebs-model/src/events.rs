//! Events of driver processes: they die and restart, and the leases move between them.
//!
//! If a sidecar loses its lease, it exits and its calls end, but its driver continues and starts no mutation from then
//! on, because no caller waits. Calls that it sent earlier may still reach EC2, and the new driver cannot detect them.
//! So the model permits exactly the following, and counts it in the trace:
//!
//! 1. a DetachVolume from before the loss takes effect after the new driver has reported the volume attached;
//! 2. a CreateSnapshot from before the loss, and one of the new driver, create two snapshots.
//!
//! A new driver sees the sidecar's new connection, and waits for late effects before it reports a volume detached or a
//! final error for a creation. After a process *died*, only (1) is permitted.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::{Action, Ec2};
use ebs_sim::api::{self, Call};
use ebs_sim::faults::{Effect, Rule};
use tokio::time::Instant;

use crate::beliefs::VolumeBelief;
use crate::driver::Driver;
use crate::sidecar::Sidecar;
use crate::world::World;

/// The maximum error of a machine's clock, in milliseconds.
const CLOCK_ERROR_MS: u64 = 290_000;
const CLOCK_ERROR: Duration = Duration::from_millis(CLOCK_ERROR_MS);
/// How many clocks in a thousand are so wrong that EC2 rejects the signatures until a response contains the right time.
const WRONG_CLOCKS: u64 = 80;
/// Permissions that a policy may lack for a while.
const RIGHTS: [Action; 19] = [
    Action::AttachVolume,
    Action::CopyVolumes,
    Action::CreateSnapshot,
    Action::CreateTags,
    Action::CreateVolume,
    Action::CreateVolume,
    Action::DeleteSnapshot,
    Action::DeleteTags,
    Action::DeleteVolume,
    Action::DescribeAvailabilityZones,
    Action::DescribeInstances,
    Action::DescribeLockedSnapshots,
    Action::DescribeSnapshots,
    Action::DescribeVolumes,
    Action::DescribeVolumesModifications,
    Action::DetachVolume,
    Action::EnableFastSnapshotRestores,
    Action::LockSnapshot,
    Action::ModifyVolume,
];
/// The name of the fault rules that delay attachments.
const STICKY: &str = "sticky";

impl<E: Ec2> World<E> {
    /// Kills a process and starts another one in its place.
    pub(crate) async fn restart_driver(&mut self) {
        let Some(died) = self.some_holder() else { return };
        let process = Arc::clone(&self.drivers[died].process);
        process.die();
        let held = self.leases_of(died);
        let gap = self.rng.millis(0, 5_000);
        let next = self.start_driver().await;
        held.iter().for_each(|sidecar| self.holders[sidecar.place()] = next);
        self.tell(format!("driver {} is killed and replaced after {gap:?}", process.id));
        self.no_driver_until = Instant::now() + gap;
    }

    /// Moves one lease or all leases of a process to another process, which is new or has been running for a while.
    pub(crate) async fn hand_over(&mut self) {
        let Some(old) = self.some_holder() else { return };
        let mut leases = self.leases_of(old);
        if self.rng.per_mille(500) {
            let kept = self.rng.below(leases.len());
            leases = vec![leases[kept]];
        }
        leases.iter().for_each(|sidecar| self.drivers[old].process.lose_lease(*sidecar));
        let next = self.next_holder(old, &leases).await;
        let gap = self.rng.millis(0, 20_000);
        self.tell(format!("driver {old} loses the leases of {leases:?} to {next} after {gap:?}"));
        self.no_driver_until = Instant::now() + gap;
    }

    /// Moves the resizer's lease to another driver within two seconds.
    pub(crate) async fn hand_over_the_resizer(&mut self) {
        let old = self.holders[Sidecar::Resizer.place()];
        if Instant::now() < self.no_driver_until || self.drivers[old].process.is_dead() {
            return;
        }
        self.drivers[old].process.lose_lease(Sidecar::Resizer);
        let next = self.next_holder(old, &[Sidecar::Resizer]).await;
        let gap = self.rng.millis(0, 2_000);
        self.tell(format!("driver {old} loses the lease of the resizer to {next} after {gap:?}"));
        self.no_driver_until = Instant::now() + gap;
    }

    /// Kills a process that holds leases. Another process acquires them after they have expired.
    pub(crate) async fn crash_and_hand_over(&mut self) {
        let Some(died) = self.some_holder() else { return };
        let leases = self.leases_of(died);
        let process = Arc::clone(&self.drivers[died].process);
        leases.iter().for_each(|sidecar| process.lose_lease(*sidecar));
        process.die();
        let next = self.next_holder(died, &leases).await;
        let gap = self.rng.millis(10_000, 20_000);
        self.tell(format!("driver {died} is killed, and {next} gets the leases of {leases:?} after {gap:?}"));
        self.no_driver_until = Instant::now() + gap;
    }

    fn some_holder(&mut self) -> Option<usize> {
        if Instant::now() < self.no_driver_until {
            return None;
        }
        let holders = self.holders;
        self.rng.pick(&holders).copied()
    }

    fn leases_of(&self, driver: usize) -> Vec<Sidecar> {
        Sidecar::ALL.into_iter().filter(|sidecar| self.holders[sidecar.place()] == driver).collect()
    }

    async fn next_holder(&mut self, old: usize, leases: &[Sidecar]) -> usize {
        let others: Vec<usize> =
            (0..self.drivers.len()).filter(|at| *at != old && !self.drivers[*at].process.is_dead()).collect();
        let next = match self.rng.pick(&others) {
            Some(other) => *other,
            None => self.start_driver().await,
        };
        leases.iter().for_each(|sidecar| self.holders[sidecar.place()] = next);
        next
    }

    pub(crate) async fn start_driver(&mut self) -> usize {
        let now = self.sim.engine().now() + CLOCK_ERROR;
        // The clock of the driver's machine may be wrong, but in most cases not so wrong that EC2 rejects the driver's
        // requests.
        let time_of_day =
            if self.rng.per_mille(500) { now - self.rng.millis(0, 2 * CLOCK_ERROR_MS) } else { now - CLOCK_ERROR };
        let clock_is_wrong = self.clocks.per_mille(WRONG_CLOCKS);
        let (id, client) = (self.drivers.len(), (self.client)(self.sim.clone()).await);
        if clock_is_wrong {
            self.tell(format!("the clock of driver {id} is wrong"));
        }
        self.drivers.push(Driver::start(id, client, &self.network, (time_of_day, clock_is_wrong)));
        id
    }

    /// Starts a process that every sidecar calls from now on.
    pub(crate) async fn call_a_new_driver(&mut self) {
        self.holders = [self.start_driver().await; 4];
    }

    /// Makes attachments stay `attaching`, `detaching` or `busy` until a later release.
    pub(crate) fn make_attachments_stick(&mut self) {
        let effect = match self.rng.below(3) {
            0 => Effect::StuckAttaching,
            1 => Effect::StuckDetaching,
            _ => Effect::Busy,
        };
        let time = self.rng.millis(5_000, 120_000);
        self.tell(format!("for {time:?}, attachments are stuck: {}", effect.kind()));
        self.sticky_until = Some(Instant::now() + time);
        let rule = Rule { name: Some(STICKY.to_owned()), ..Rule::new(effect).chance(0.7) };
        let set = self.sim.faults().add(rule);
        assert!(set.is_ok(), "rule for attachments: {set:?}");
    }

    /// Stops delaying new calls when the time is over. Attachments that are already delayed stay delayed.
    pub(crate) fn unstick(&mut self) {
        if self.sticky_until.is_some_and(|until| Instant::now() >= until) {
            self.sim.faults().remove_named(STICKY);
            self.sticky_until = None;
        }
    }

    pub(crate) fn release(&mut self) {
        self.sim.engine().release_all();
        self.tell("stuck attachments are released");
    }

    /// Terminates an instance: EC2 detaches its volumes, and the orchestrator is no longer certain where they are
    /// attached.
    pub(crate) async fn terminate_a_node(&mut self) {
        let at = self.rng.below(self.nodes.len());
        // Keep one node in the zone, so that volumes can be attached.
        let zone = self.nodes[at].zone.clone();
        if self.nodes.iter().filter(|node| node.zone == zone && !node.is_gone).count() < 2 || self.nodes[at].is_gone {
            return;
        }
        let id = self.nodes[at].id.clone();
        let call = api::TerminateInstances { instance_ids: vec![id.clone()], ..Default::default() };
        let gone = self.sim.by_test().engine().call(Call::TerminateInstances(call)).await;
        if gone.is_err() {
            // EC2 throttles the test as it throttles a driver.
            return;
        }
        self.tell(format!("{id}, node {at}, is terminated"));
        self.nodes[at].is_gone = true;
        self.foreign.retain(|_, volume| !volume.attachments.iter().any(|a| a.instance_id == id));
        for claim in &mut self.beliefs.claims {
            if let VolumeBelief::Exists(disk) | VolumeBelief::Deleting(disk) = &mut claim.state {
                disk.lose_node(at);
            }
        }
    }

    /// Removes a permission from the drivers for a while, as a mistake in a policy would.
    pub(crate) fn take_a_right(&mut self) {
        let Some(action) = self.rng.pick(&RIGHTS).copied() else { return };
        let time = self.rng.millis(1_000, 200_000);
        self.network.take_right(action, time);
        self.tell(format!("for {time:?}, IAM denies {action}"));
    }

    /// Returns the time until the next step.
    pub(crate) fn pause(&mut self) -> Duration {
        match self.rng.below(20) {
            0..=7 => Duration::ZERO,
            8..=12 => self.rng.millis(1, 1_500),
            13..=17 => self.rng.millis(1_500, 12_000),
            18 => self.rng.millis(12_000, 60_000),
            _ => self.rng.millis(60_000, 400_000),
        }
    }
}
