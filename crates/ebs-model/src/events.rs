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
use ebs_sim::engine::TimingOverride;
use tokio::time::Instant;

use crate::driver::Driver;
use crate::world::World;

/// As the simulator's times go, in milliseconds.
const NEVER: u64 = u64::MAX;

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

    /// For a while, attachments that begin stay `attaching` for ever, or those that end stay `detaching` for long.
    pub(crate) fn make_attachments_stick(&mut self) {
        let stuck = if self.dice.mille(500) {
            TimingOverride { attach_ms: Some(NEVER), ..self.timing }
        } else {
            TimingOverride { detach_ms: Some(self.dice.between(60_000, 900_000)), ..self.timing }
        };
        self.sim.engine().replace_timing(stuck);
        let time = self.dice.millis(5_000, 120_000);
        self.sticky_until = Some(Instant::now() + time);
        self.tell(format!("for {time:?} attachments stick: {:?}, {:?}", stuck.attach_ms, stuck.detach_ms));
    }

    /// Ends that when its time has come, or now. What sticks already goes on sticking.
    pub(crate) fn unstick(&mut self, now: bool) {
        if self.sticky_until.is_some_and(|until| now || Instant::now() >= until) {
            self.sim.engine().replace_timing(self.timing);
            self.sticky_until = None;
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
