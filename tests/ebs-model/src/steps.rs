//! The orchestrator's next steps: the calls of its controllers, and sometimes calls that it should not make.

use std::time::Duration;

use ebs_ec2::Ec2;
use ebs_sim::engine::TimingOverride;
use tokio::time::Instant;

use crate::beliefs::{AttachmentBelief, Disk, SnapshotBelief, VolumeBelief};
use crate::classes::Class;
use crate::content::{GP3, Origin, SnapOrder, VolumeOrder};
use crate::fault_plan::SETTLE;
use crate::retries::Deadline;
use crate::target::Target;
use crate::world::{Checked, World};

/// The largest expansion that a run requests in one step, in GiB.
const GROWTH: u64 = 3;

impl<E: Ec2> World<E> {
    pub(crate) async fn step(&mut self) -> Checked {
        match self.rng.below(100) {
            0..=3 => self.interrupt().await?,
            4..=9 => self.change_a_wish(),
            10..=39 => self.work_on_a_claim(),
            40..=64 => self.move_a_volume(),
            65..=72 => self.change_a_volume(),
            73..=75 => self.change_at_two_drivers().await?,
            76..=83 => {
                self.switch_off_fast_restores().await;
                self.work_on_a_snapshot();
            }
            84..=91 => self.repeat_a_call(),
            92..=95 => self.ask_for_other_content(),
            _ => self.disturb().await,
        }
        Ok(())
    }

    /// Kills the driver in the middle of a call, and sends the next driver the same or the opposite request.
    async fn interrupt(&mut self) -> Checked {
        let kind = self.rng.below(4);
        let before = self.next_call;
        match kind {
            0 => self.work_on_a_claim(),
            1 => self.work_on_a_snapshot(),
            _ => self.move_a_volume(),
        }
        if self.next_call == before {
            return Ok(());
        }
        let target = self.history.last().cloned();
        let meanwhile = self.rng.millis(0, 1_500);
        self.pass(meanwhile).await?;
        if self.rng.per_mille(500) {
            self.restart_driver().await;
        } else {
            self.hand_over().await;
        }
        let left = self.no_driver_until.saturating_duration_since(Instant::now());
        let then = self.rng.millis(0, 2_000);
        self.pass(left + then).await?;
        let deadline = Deadline::Within(Duration::from_secs(60));
        match target {
            Some(Target::Publish { id, node, .. }) if self.rng.per_mille(700) => {
                self.set_home(&id, None);
                self.send(Target::Unpublish { id, node }, deadline);
            }
            Some(Target::Create { claim, .. }) => {
                self.advance_claim(claim, deadline);
            }
            Some(Target::Snapshot { snap, .. }) => {
                self.advance_snapshot(snap, deadline);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns how long the orchestrator waits for a response. Sometimes it disconnects at once.
    pub(crate) fn deadline(&mut self) -> Deadline {
        Deadline::Within(match self.rng.below(12) {
            0 => self.rng.millis(0, 300),
            1..=2 => self.rng.millis(300, 2_000),
            3..=4 => self.rng.millis(1_000, 10_000),
            5..=6 => Duration::from_secs(10),
            7..=8 => Duration::from_secs(15),
            9..=10 => Duration::from_secs(60),
            _ => Duration::from_secs(360),
        })
    }

    fn change_a_wish(&mut self) {
        let at = self.rng.below(self.beliefs.claims.len());
        let claim = &mut self.beliefs.claims[at];
        claim.wish = !claim.wish;
        let text = format!("{} is {}wanted", claim.name, if claim.wish { "" } else { "no longer " });
        self.tell(text);
    }

    fn work_on_a_claim(&mut self) {
        let at = self.rng.below(self.beliefs.claims.len());
        let deadline = self.deadline();
        self.advance_claim(at, deadline);
    }

    /// Sends the provisioner's next call for a volume. Returns false if there is nothing left to do.
    pub(crate) fn advance_claim(&mut self, at: usize, deadline: Deadline) -> bool {
        let claim = &self.beliefs.claims[at];
        match claim.state.clone() {
            VolumeBelief::Absent if !claim.wish => false,
            VolumeBelief::Absent | VolumeBelief::Unknown if claim.creating > 0 => true,
            VolumeBelief::Absent => {
                self.new_order(at);
                let order = self.beliefs.claims[at].order.clone();
                self.send(Target::Create { claim: at, order }, deadline);
                true
            }
            VolumeBelief::Unknown => {
                let order = claim.order.clone();
                self.send(Target::Create { claim: at, order }, deadline);
                true
            }
            VolumeBelief::Exists(_) if claim.wish => false,
            VolumeBelief::Exists(disk) | VolumeBelief::Deleting(disk) => {
                self.remove(at, &disk, deadline);
                true
            }
        }
    }

    /// Sends the next call for the removal of a volume: first detaches it from all nodes, then deletes it.
    fn remove(&mut self, at: usize, disk: &Disk, deadline: Deadline) {
        match disk.nodes().first() {
            Some(node) if disk.holds[node].unpublishing > 0 => {}
            Some(node) => self.send(Target::Unpublish { id: disk.id.clone(), node: *node }, deadline),
            // The provisioner finishes one request for a volume before it begins another.
            None if disk.deleting == 0 && self.beliefs.claims[at].creating == 0 => {
                self.send(Target::Delete { claim: at, id: disk.id.clone() }, deadline);
            }
            None => {}
        }
    }

    /// Draws a new request for a name that no object has.
    fn new_order(&mut self, at: usize) {
        if self.rng.per_mille(300) {
            return;
        }
        let (name, zones) = (self.beliefs.claims[at].name.clone(), self.zones());
        let mut order = VolumeOrder::draw(&mut self.rng, &name, &zones);
        if self.rng.per_mille(250) {
            self.add_origin(&mut order);
        }
        self.beliefs.claims[at].order = order;
    }

    fn add_origin(&mut self, order: &mut VolumeOrder) {
        // A copy has the encryption of its source.
        order.key = None;
        let snapshots: Vec<(String, i64)> = self
            .beliefs
            .snaps
            .iter()
            .filter_map(|s| match &s.state {
                SnapshotBelief::Exists { id, ready: true, gib } if !s.twinned => Some((id.clone(), *gib)),
                _ => None,
            })
            .collect();
        let disks: Vec<Disk> = self
            .beliefs
            .claims
            .iter()
            .filter_map(|c| if let VolumeBelief::Exists(disk) = &c.state { Some(disk.clone()) } else { None })
            .collect();
        let snapshot = self.rng.pick(&snapshots).cloned();
        let disk = self.rng.pick(&disks).cloned();
        match (snapshot, disk) {
            (Some((id, gib)), _) if self.rng.per_mille(600) => {
                order.gib = order.gib.max(gib);
                order.origin = Origin::Snapshot(id);
            }
            (_, Some(disk)) => {
                order.gib = order.gib.max(disk.wanted_gib);
                order.zones = vec![disk.zone];
                order.origin = Origin::Volume(disk.id);
            }
            _ => {}
        }
    }

    fn some_disk(&mut self) -> Option<Disk> {
        let claims = self.beliefs.claims.iter();
        let disks: Vec<&Disk> =
            claims.filter_map(|c| if let VolumeBelief::Exists(disk) = &c.state { Some(disk) } else { None }).collect();
        self.rng.pick(&disks).map(|disk| (*disk).clone())
    }

    fn move_a_volume(&mut self) {
        let Some(disk) = self.some_disk() else { return self.work_on_a_claim() };
        let deadline = self.deadline();
        let nodes = disk.nodes();
        let near: Vec<usize> =
            (0..self.nodes.len()).filter(|n| self.nodes[*n].zone == disk.zone && !self.nodes[*n].is_gone).collect();
        let Some(node) = nodes.first().copied() else {
            if let Some(node) = self.rng.pick(&near).copied() {
                self.set_home(&disk.id, Some(node));
                self.send(Target::Publish { id: disk.id, node, shared: disk.shared }, deadline);
            }
            return;
        };
        let hold = disk.holds[&node].clone();
        let chance = self.rng.below(100);
        let publish = |node| Target::Publish { id: disk.id.clone(), node, shared: disk.shared };
        let unpublish = Target::Unpublish { id: disk.id.clone(), node };
        match hold.state {
            AttachmentBelief::Maybe if chance < 50 && hold.publishing == 0 && !self.nodes[node].is_gone => {
                self.send(publish(node), deadline)
            }
            AttachmentBelief::Attached(_) if chance < 20 => self.send(publish(node), deadline),
            // Publish to a second node. Unless the volume is shared, the call fails while the first node has it.
            AttachmentBelief::Attached(_) if chance < 40 => {
                let other = near.iter().copied().find(|n| !nodes.contains(n));
                if let Some(other) = other {
                    self.send(publish(other), deadline);
                }
            }
            _ if hold.unpublishing == 0 => {
                self.set_home(&disk.id, None);
                self.send(unpublish, deadline);
            }
            _ => {}
        }
    }

    fn set_home(&mut self, id: &str, home: Option<usize>) {
        if let Some(disk) = self.beliefs.disk(id) {
            disk.home = home;
        }
    }

    /// Changes a volume: expands it, applies a class, or does both almost concurrently.
    fn change_a_volume(&mut self) {
        let Some(disk) = self.some_disk() else { return self.work_on_a_claim() };
        match self.rng.below(10) {
            0..=2 => self.grow(disk),
            3..=5 => self.apply_a_class(&disk),
            6..=7 => {
                self.apply_a_class(&disk);
                self.grow(disk);
            }
            _ => {
                self.grow(disk.clone());
                self.apply_a_class(&disk);
            }
        }
    }

    /// Applies a class. Then the resizer's lease moves to another driver, which must immediately apply another class,
    /// or restore the properties from before the first class.
    async fn change_at_two_drivers(&mut self) -> Checked {
        let Some(disk) = self.some_disk() else { return Ok(()) };
        let before = self.numbers_of(&disk.id).await;
        // Even if EC2 completes a modification at once, describe calls may show the new values only later.
        if self.rng.per_mille(700) {
            let at_once = TimingOverride { modify_ms: Some(0), optimize_ms: Some(0), ..TimingOverride::default() };
            self.sim.engine().set_timing(at_once).await;
        }
        // The next leader must have been running for a while.
        if self.drivers.iter().filter(|driver| !driver.process.is_dead()).count() < 2 {
            self.start_driver().await;
            self.pass(SETTLE).await?;
        }
        self.apply_a_class(&disk);
        for _ in 0..40 {
            let is_there = self.beliefs.disk(&disk.id).is_none_or(|disk| disk.changes.pending.is_none());
            if is_there || self.calls.is_empty() {
                break;
            }
            self.pass(Duration::from_secs(1)).await?;
        }
        self.hand_over_the_resizer().await;
        let left = self.no_driver_until.saturating_duration_since(Instant::now());
        self.pass(left).await?;
        let Some(disk) = self.beliefs.disk(&disk.id).cloned() else { return Ok(()) };
        match before {
            Some(numbers) if disk.changes.may_begin_another() && self.rng.per_mille(500) => {
                let class = Class::of_numbers(self.next_call, numbers);
                self.send(Target::Modify { id: disk.id, class }, Deadline::Within(Duration::from_secs(60)));
            }
            _ => self.apply_a_class(&disk),
        }
        Ok(())
    }

    /// Returns the current IOPS and throughput of a gp3 volume.
    async fn numbers_of(&self, id: &str) -> Option<(u64, u64)> {
        let volume = self
            .sim
            .engine()
            .snapshot_of_state()
            .await
            .volumes
            .into_iter()
            .find(|v| v.id == id && v.volume_type == GP3)?;
        Some((volume.iops?.into(), volume.throughput?.into()))
    }

    fn apply_a_class(&mut self, disk: &Disk) {
        let deadline = self.deadline();
        let changes = &disk.changes;
        let class = match &changes.pending {
            _ if changes.may_begin_another() => {
                let is_creating = self.beliefs.owner(&disk.id).is_none_or(|claim| claim.creating > 0);
                let serial = self.next_call;
                Class::draw(&mut self.rng, serial, (changes.kind, disk.gib), !disk.shared && !is_creating)
            }
            Some(pending) => pending.clone(),
            None => return,
        };
        self.send(Target::Modify { id: disk.id.clone(), class }, deadline);
    }

    fn grow(&mut self, disk: Disk) {
        let more = if disk.wanted_gib > disk.gib { 0 } else { self.rng.between(1, GROWTH) };
        let gib = disk.wanted_gib + i64::try_from(more).unwrap_or(1);
        let deadline = self.deadline();
        self.send(Target::Expand { id: disk.id, gib, shared: disk.shared }, deadline);
    }

    fn work_on_a_snapshot(&mut self) {
        let at = self.rng.below(self.beliefs.snaps.len());
        if self.rng.per_mille(300) {
            self.beliefs.snaps[at].wish = !self.beliefs.snaps[at].wish;
        }
        let deadline = self.deadline();
        self.advance_snapshot(at, deadline);
    }

    /// Sends the snapshotter's next call for a snapshot. Returns false if there is nothing left to do.
    pub(crate) fn advance_snapshot(&mut self, at: usize, deadline: Deadline) -> bool {
        let snap = &self.beliefs.snaps[at];
        if snap.twinned {
            return false;
        }
        match snap.state.clone() {
            SnapshotBelief::Absent if !snap.wish => false,
            SnapshotBelief::Absent => {
                let Some(disk) = self.some_disk() else { return false };
                let order = SnapOrder::draw(&mut self.rng, &disk.id);
                self.beliefs.snaps[at].order = order.clone();
                self.send(Target::Snapshot { snap: at, order }, deadline);
                true
            }
            SnapshotBelief::Unknown | SnapshotBelief::Exists { ready: false, .. } if snap.creating > 0 => true,
            SnapshotBelief::Unknown => {
                let order = snap.order.clone();
                self.send(Target::Snapshot { snap: at, order }, deadline);
                true
            }
            SnapshotBelief::Exists { ready: false, .. } if snap.wish => {
                let order = snap.order.clone();
                self.send(Target::Snapshot { snap: at, order }, deadline);
                true
            }
            SnapshotBelief::Exists { .. } if snap.wish => false,
            SnapshotBelief::Exists { id, .. } if snap.creating == 0 => {
                self.send(Target::DropSnapshot { snap: at, id }, deadline);
                true
            }
            SnapshotBelief::Deleting { id, calls: 0 } => {
                self.send(Target::DropSnapshot { snap: at, id }, deadline);
                true
            }
            SnapshotBelief::Exists { .. } | SnapshotBelief::Deleting { .. } => true,
        }
    }

    /// Sends a late duplicate of an earlier call, if CSI permits it.
    fn repeat_a_call(&mut self) {
        let recent = self.history.len().saturating_sub(12);
        let Some(target) = self.rng.pick(&self.history[recent..]).cloned() else { return };
        let is_legal = match &target {
            Target::Create { claim, order } => {
                let claim = &self.beliefs.claims[*claim];
                let is_retyped = claim.disk().is_some_and(|disk| disk.changes.is_retyped);
                *order == claim.order && !matches!(claim.state, VolumeBelief::Deleting(_)) && !is_retyped
            }
            Target::Delete { claim, id } => match &self.beliefs.claims[*claim].state {
                VolumeBelief::Exists(disk) => disk.id != *id,
                VolumeBelief::Deleting(_) | VolumeBelief::Absent | VolumeBelief::Unknown => true,
            },
            Target::Publish { id, node, .. } => match self.beliefs.disk(id) {
                Some(disk) => disk.hold(*node).state != AttachmentBelief::Leaving && disk.hold(*node).unpublishing == 0,
                None => self.beliefs.deleted.contains(id),
            },
            Target::Unpublish { .. } | Target::Expand { .. } => true,
            Target::Modify { id, class } => {
                self.beliefs.disk(id).is_some_and(|disk| disk.changes.latest() == Some(class))
            }
            Target::Snapshot { snap, order } => {
                let snap = &self.beliefs.snaps[*snap];
                !snap.twinned && *order == snap.order && !matches!(snap.state, SnapshotBelief::Deleting { .. })
            }
            Target::DropSnapshot { snap, id } => match &self.beliefs.snaps[*snap].state {
                SnapshotBelief::Exists { id: known, .. } => known != id,
                _ => !self.beliefs.snaps[*snap].twinned,
            },
        };
        if is_legal {
            let deadline = self.deadline();
            self.send(target, deadline);
        }
    }

    /// Sends a different request with the name of an existing object, which must fail and change nothing.
    fn ask_for_other_content(&mut self) {
        let deadline = self.deadline();
        if self.rng.per_mille(300) {
            let at = self.rng.below(self.beliefs.snaps.len());
            let Some(disk) = self.some_disk() else { return };
            let snap = &self.beliefs.snaps[at];
            if matches!(snap.state, SnapshotBelief::Exists { .. }) && snap.order.source != disk.id && !snap.twinned {
                let order = SnapOrder { source: disk.id, ..snap.order.clone() };
                self.send(Target::Snapshot { snap: at, order }, deadline);
            }
            return;
        }
        let at = self.rng.below(self.beliefs.claims.len());
        let claim = &self.beliefs.claims[at];
        let VolumeBelief::Exists(disk) = &claim.state else { return };
        if claim.order.origin != Origin::Blank || disk.wanted_gib > claim.order.gib {
            return;
        }
        let order = claim.order.other_content(&mut self.rng);
        self.send(Target::Create { claim: at, order }, deadline);
    }

    /// Disturbs drivers, or acts as a careless administrator.
    async fn disturb(&mut self) {
        match self.rng.below(13) {
            0..=3 => self.restart_driver().await,
            4..=5 => self.hand_over().await,
            6 => self.crash_and_hand_over().await,
            7 => self.make_attachments_stick(),
            8 => self.release(),
            9 => self.terminate_a_node().await,
            10..=11 => self.take_a_right(),
            _ => {
                let Some(disk) = self.some_disk() else { return };
                let at = self.beliefs.claims.iter().position(|c| c.disk().is_some_and(|d| d.id == disk.id));
                let (Some(at), deadline) = (at, self.deadline()) else { return };
                if self.beliefs.claims[at].creating == 0 {
                    self.beliefs.claims[at].wish = false;
                    self.send(Target::Delete { claim: at, id: disk.id }, deadline);
                }
            }
        }
    }

    /// Returns the zones of all nodes. A zone with more nodes occurs more often.
    fn zones(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.zone.clone()).collect()
    }
}
