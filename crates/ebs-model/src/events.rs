//! What happens to driver processes: they die and are started again, and the lease goes from one to another.
//!
//! **What a lost lease allows.** A driver that loses its lease lives on, but its callers leave at that moment (the
//! sidecar that held the lease exits). By `decisions.md` D-10 it starts no mutation from then on; that is checked. What it
//! had sent before may still reach EC2 for a short while, and the new driver, a process that has been running all along,
//! cannot know of it. So exactly this is allowed, and counted in the story of a run:
//!
//! 1. an AttachVolume sent before the loss takes effect after the new driver has reported the volume detached;
//! 2. a DetachVolume sent before the loss takes effect after the new driver has reported the volume attached;
//! 3. a CreateVolume sent before the loss takes effect after the new driver has refused the volume for good;
//! 4. a CreateSnapshot sent before the loss, and one of the new driver which could not see it yet, make two.
//!
//! A process that *died* is another matter: the one that is started for it knows when it was started, and waits for
//! what may still come where it would otherwise promise too much. Only (2) is allowed to it.

use std::sync::Arc;
use std::time::Duration;

use ebs_ec2::Ec2;
use ebs_sim::api::{self, Call};
use ebs_sim::faults::{Effect, Rule};
use tokio::time::Instant;

use crate::beliefs::Claimed;
use crate::driver::Driver;
use crate::world::World;

/// The name of the fault rules that make attachments stick.
const STICKY: &str = "sticky";

impl<E: Ec2> World<E> {
    /// The process dies, and another is started in its place.
    pub(crate) async fn restart_driver(&mut self) {
        if self.driver().is_none() {
            return;
        }
        self.drivers[self.active].line.die();
        let gap = self.dice.millis(0, 5_000);
        self.tell(format!("driver {} dies; the next is there in {gap:?}", self.drivers[self.active].line.id));
        self.start_driver().await;
        self.no_driver_until = Instant::now() + gap;
    }

    /// The lease goes to another process, that has been there for a while or is new.
    pub(crate) async fn hand_over(&mut self) {
        if self.driver().is_none() {
            return;
        }
        self.drivers[self.active].line.lose_lease();
        let old = self.drivers[self.active].line.id;
        self.next_holder().await;
        let gap = self.dice.millis(0, 20_000);
        self.tell(format!("driver {old} loses the lease to {} in {gap:?}", self.drivers[self.active].line.id));
        self.no_driver_until = Instant::now() + gap;
    }

    /// The process dies with the lease, which another gets when it has run out.
    pub(crate) async fn crash_and_hand_over(&mut self) {
        if self.driver().is_none() {
            return;
        }
        let line = Arc::clone(&self.drivers[self.active].line);
        line.lose_lease();
        line.die();
        self.next_holder().await;
        let gap = self.dice.millis(10_000, 20_000);
        self.tell(format!(
            "driver {} dies, and {} has the lease in {gap:?}",
            line.id, self.drivers[self.active].line.id
        ));
        self.no_driver_until = Instant::now() + gap;
    }

    async fn next_holder(&mut self) {
        let others: Vec<usize> =
            (0..self.drivers.len()).filter(|at| *at != self.active && !self.drivers[*at].line.is_dead()).collect();
        match self.dice.pick(&others) {
            Some(other) => self.active = *other,
            None => self.start_driver().await,
        }
    }

    /// A new process, which is the one that is called.
    pub(crate) async fn start_driver(&mut self) {
        let now = self.sim.engine().now();
        let driver = Driver::start(self.drivers.len(), (self.client)(self.sim.clone()).await, &self.field, now);
        self.drivers.push(driver);
        self.active = self.drivers.len() - 1;
    }

    /// For a while, attachments that begin stay `attaching`, or those that end stay `detaching` or `busy`: until they are
    /// released, some other time.
    pub(crate) fn make_attachments_stick(&mut self) {
        let effect = match self.dice.below(3) {
            0 => Effect::StuckAttaching,
            1 => Effect::StuckDetaching,
            _ => Effect::Busy,
        };
        let time = self.dice.millis(5_000, 120_000);
        self.tell(format!("for {time:?} attachments stick: {}", effect.kind()));
        self.sticky_until = Some(Instant::now() + time);
        let rule = Rule { name: Some(STICKY.to_owned()), ..Rule::new(effect).chance(0.7) };
        let set = self.sim.faults().add(rule);
        assert!(set.is_ok(), "a rule for attachments: {set:?}");
    }

    /// Ends that when its time has come; what sticks goes on sticking.
    pub(crate) fn unstick(&mut self) {
        if self.sticky_until.is_some_and(|until| Instant::now() >= until) {
            self.sim.faults().remove_named(STICKY);
            self.sticky_until = None;
        }
    }

    /// What sticks goes on.
    pub(crate) fn release(&mut self) {
        self.sim.engine().release_all();
        self.tell("what sticks is released");
    }

    /// An instance is terminated: its attachments end by themselves, and the orchestrator knows nothing of them for sure.
    pub(crate) async fn terminate_a_node(&mut self) {
        let at = self.dice.below(self.nodes.len());
        // Its zone keeps another one, so that volumes have a place to go.
        let zone = self.nodes[at].zone.clone();
        if self.nodes.iter().filter(|node| node.zone == zone && !node.is_gone).count() < 2 || self.nodes[at].is_gone {
            return;
        }
        let id = self.nodes[at].id.clone();
        let call = api::TerminateInstances { instance_ids: vec![id.clone()], ..Default::default() };
        let gone = self.sim.by_test().engine().call(Call::TerminateInstances(call)).await;
        if gone.is_err() {
            // Throttled, as the driver may be.
            return;
        }
        self.tell(format!("{id}, node {at}, is terminated"));
        self.nodes[at].is_gone = true;
        self.foreign.retain(|_, volume| !volume.attachments.iter().any(|a| a.instance_id == id));
        for claim in &mut self.beliefs.claims {
            if let Claimed::Exists(disk) | Claimed::Deleting(disk) = &mut claim.state {
                disk.lose_node(at);
            }
        }
    }

    /// Time until the next step.
    pub(crate) fn pause(&mut self) -> Duration {
        match self.dice.below(20) {
            0..=7 => Duration::ZERO,
            8..=12 => self.dice.millis(1, 1_500),
            13..=17 => self.dice.millis(1_500, 12_000),
            18 => self.dice.millis(12_000, 60_000),
            _ => self.dice.millis(60_000, 400_000),
        }
    }
}
