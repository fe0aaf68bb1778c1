//! The end of a run. Without faults, every request succeeds although clients disconnect and retry. Then everything is
//! deleted.

use std::collections::BTreeMap;
use std::time::Duration;

use ebs_ec2::Ec2;
use ebs_sim::api::{self, Call};
use tokio::time::Instant;

use crate::beliefs::{AttachmentBelief, Disk, SnapClaim, SnapshotBelief, VolumeBelief};
use crate::planted::Planted;
use crate::retries::Deadline;
use crate::target::Target;
use crate::truth::is_live;
use crate::world::{Checked, World, broken};

/// Time limit from the end of the faults until every object is as requested, even with clients that disconnect early.
const TO_CONVERGE: Duration = Duration::from_secs(1800);
/// How long to wait until every lock of a snapshot has expired.
const LOCKS_END: Duration = Duration::from_hours(26);
/// How many days to wait for locks: a snapshot that becomes ready late, because the quota was used up, may be locked
/// for another day.
const MOST_LOCKS: u32 = 4;
/// Pause between checks for remaining work.
const LOOK_ROUND: Duration = Duration::from_secs(1);
/// Maximum number of attempts at a creation or expansion that returns final errors after the faults have ended.
const MOST_TRIES: u32 = 3;

impl<E: Ec2> World<E> {
    /// Waits for a limited time until every request has succeeded or failed with a final error. Clients disconnect and
    /// retry like sidecars.
    pub(crate) async fn settle_down(&mut self) -> Checked {
        self.retries.forget();
        for claim in &mut self.beliefs.claims {
            if let VolumeBelief::Exists(disk) = &mut claim.state {
                (disk.growth_refusals, disk.changes.refusals) = (0, 0);
            }
        }
        self.quiet(Duration::from_secs(600)).await?;
        let began = Instant::now();
        let mut tried: BTreeMap<String, u32> = BTreeMap::new();
        loop {
            // EC2 may have delayed a call that was in flight when the faults ended.
            self.sim.engine().release_all();
            self.switch_off_fast_restores().await;
            let mut open = self.settle_claims(&mut tried);
            open.extend(self.bring_home());
            open.extend(self.settle_snapshots(&mut tried));
            if self.network.is_planted(Planted::NothingRemembered) {
                self.call_a_new_driver().await;
            }
            if open.is_empty() && self.running.is_empty() {
                self.tell(format!("the desired state is reached after {:?}", began.elapsed()));
                return Ok(());
            }
            if began.elapsed() >= TO_CONVERGE {
                let time = TO_CONVERGE.as_secs() / 60;
                return broken(format!(
                    "{time} min after the last fault, {open:?} is still unfinished: {:?}",
                    self.retries
                ));
            }
            self.pass(LOOK_ROUND).await?;
        }
    }

    /// Sends the next calls for volumes and their sizes. Returns the names of the unfinished volumes.
    fn settle_claims(&mut self, tried: &mut BTreeMap<String, u32>) -> Vec<String> {
        let mut open = Vec::new();
        for at in 0..self.beliefs.claims.len() {
            let name = self.beliefs.claims[at].name.clone();
            let is_absent = matches!(self.beliefs.claims[at].state, VolumeBelief::Absent);
            if is_absent && !may_try(tried, &name) {
                continue;
            }
            let before = self.next_call;
            if self.advance_claim(at, Deadline::Sidecar) {
                if is_absent && self.next_call > before {
                    *tried.entry(name.clone()).or_default() += 1;
                }
                open.push(name);
            } else if let VolumeBelief::Exists(disk) = self.beliefs.claims[at].state.clone()
                && self.settle_changes(disk)
            {
                open.push(name);
            }
        }
        open
    }

    /// Sends the next calls for the expansion and class of a volume. Returns whether any work is left.
    fn settle_changes(&mut self, disk: Disk) -> bool {
        let is_to_grow = disk.wanted_gib > disk.gib && disk.growth_refusals < MOST_TRIES;
        if is_to_grow && disk.growing == 0 {
            let (id, gib, shared) = (disk.id.clone(), disk.wanted_gib, disk.shared);
            self.send(Target::Expand { id, gib, shared }, Deadline::Sidecar);
        }
        let class = disk.changes.pending.filter(|_| disk.changes.refusals < MOST_TRIES);
        if let Some(class) = &class
            && disk.changes.modifying == 0
        {
            self.send(Target::Modify { id: disk.id, class: class.clone() }, Deadline::Sidecar);
        }
        is_to_grow || class.is_some()
    }

    /// Sends the next calls for snapshots. Returns the names of the unfinished snapshots.
    fn settle_snapshots(&mut self, tried: &mut BTreeMap<String, u32>) -> Vec<String> {
        let mut open = Vec::new();
        for at in 0..self.beliefs.snaps.len() {
            let name = self.beliefs.snaps[at].name.clone();
            let snap = &self.beliefs.snaps[at];
            let is_tried = matches!(snap.state, SnapshotBelief::Absent) || self.may_lack_a_quota(snap);
            if is_tried && !may_try(tried, &name) || self.is_held_by_a_lock(snap) {
                continue;
            }
            let before = self.next_call;
            if self.advance_snapshot(at, Deadline::Sidecar) {
                if is_tried && self.next_call > before {
                    *tried.entry(name.clone()).or_default() += 1;
                }
                open.push(name);
            }
        }
        open
    }

    /// Returns whether the snapshot may lack its requested fast restores because the quota is used up. It can then
    /// neither become ready nor be deleted until another snapshot is deleted.
    fn may_lack_a_quota(&self, snap: &SnapClaim) -> bool {
        let is_fast = !snap.order.fast_in.is_empty();
        matches!(snap.state, SnapshotBelief::Unknown) && is_fast && self.few_fast_restores && !self.locks_have_ended
    }

    fn is_held_by_a_lock(&self, snap: &SnapClaim) -> bool {
        let (id, is_to_go) = match &snap.state {
            SnapshotBelief::Exists { id, .. } => (id, !snap.wish),
            SnapshotBelief::Deleting { id, .. } => (id, true),
            SnapshotBelief::Absent | SnapshotBelief::Unknown => return false,
        };
        is_to_go && self.network.is_held_by_a_lock(id)
    }

    /// Moves every volume to the node that must have it at the end.
    fn bring_home(&mut self) -> Vec<String> {
        let mut open = Vec::new();
        for at in 0..self.beliefs.claims.len() {
            let claim = &self.beliefs.claims[at];
            let VolumeBelief::Exists(disk) = claim.state.clone() else { continue };
            if !claim.wish {
                continue;
            }
            let deadline = Deadline::Sidecar;
            let (name, id) = (claim.name.clone(), disk.id.clone());
            let away: Vec<usize> = disk.nodes().into_iter().filter(|n| Some(*n) != disk.home).collect();
            for node in &away {
                if disk.holds[node].unpublishing == 0 {
                    self.send(Target::Unpublish { id: id.clone(), node: *node }, deadline);
                }
            }
            match disk.home {
                _ if !away.is_empty() => open.push(name),
                Some(home)
                    if !disk.holds.get(&home).is_some_and(|h| matches!(h.state, AttachmentBelief::Attached(_))) =>
                {
                    let hold = disk.holds.get(&home).cloned().unwrap_or_default();
                    if hold.publishing == 0 && hold.unpublishing == 0 {
                        let target = match hold.state {
                            AttachmentBelief::Leaving => Target::Unpublish { id, node: home },
                            _ => Target::Publish { id, node: home, shared: disk.shared },
                        };
                        self.send(target, deadline);
                    }
                    open.push(name);
                }
                _ => {}
            }
        }
        open
    }

    /// Deletes everything, and checks that nothing remains or reappears.
    pub(crate) async fn take_all_down(&mut self) -> Checked {
        self.tell("-- deleting everything");
        self.beliefs.claims.iter_mut().for_each(|claim| claim.wish = false);
        self.beliefs.snaps.iter_mut().for_each(|snap| snap.wish = false);
        self.settle_down().await?;
        for _ in 0..MOST_LOCKS {
            let is_held = |snap: &SnapClaim| self.is_held_by_a_lock(snap) || self.may_lack_a_quota(snap);
            if !self.beliefs.snaps.iter().any(is_held) {
                break;
            }
            self.tell("-- one day later, all locks have expired");
            self.pass(LOCKS_END).await?;
            self.network.end_locks();
            self.locks_have_ended = true;
            self.settle_down().await?;
        }
        self.remove_twins().await;
        self.pass(Duration::from_secs(120)).await?;
        let truth = self.sim.engine().snapshot_of_state().await;
        let left = truth.volumes.iter().filter(|v| is_live(v) && !self.foreign.contains_key(&v.id));
        let left: Vec<&String> = left
            .map(|v| &v.id)
            .chain(truth.snapshots.iter().filter(|s| !self.foreign_snapshots.contains(&s.id)).map(|s| &s.id))
            .collect();
        if left.is_empty() { Ok(()) } else { broken(format!("everything was deleted, but {left:?} is left")) }
    }

    /// Acts as an administrator: deletes snapshots that two drivers have created concurrently.
    async fn remove_twins(&mut self) {
        let names: Vec<String> = self.beliefs.snaps.iter().filter(|s| s.twinned).map(|s| s.name.clone()).collect();
        let truth = self.sim.engine().snapshot_of_state().await;
        let twins =
            names.iter().flat_map(|name| crate::truth::named_snapshots(&truth, name).map(|twin| twin.id.clone()));
        self.switch_off_for_good(twins.collect()).await;
        for name in names {
            for twin in crate::truth::named_snapshots(&truth, &name) {
                let call = api::DeleteSnapshot { snapshot_id: twin.id.clone(), dry_run: false };
                let gone = self.sim.engine().call(Call::DeleteSnapshot(call)).await;
                assert!(gone.is_ok(), "a plain snapshot can be deleted: {gone:?}");
            }
        }
    }
}

fn may_try(tried: &BTreeMap<String, u32>, name: &str) -> bool {
    tried.get(name).is_none_or(|times| *times < MOST_TRIES)
}
