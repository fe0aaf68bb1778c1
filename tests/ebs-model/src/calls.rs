//! The orchestrator's calls, and how sending them changes its beliefs.

use ebs_ec2::Ec2;

use crate::beliefs::{AttachmentBelief, Claim, Disk, SnapClaim, SnapshotBelief, VolumeBelief};
use crate::classes::Class;
use crate::content::{self, SnapOrder, VolumeOrder};
use crate::retries::Deadline;
use crate::rpc::Rpc;
use crate::target::{Call, Target};
use crate::world::World;

#[derive(Debug, Default)]
struct Expected {
    others_before: u64,
    ratio: Option<u64>,
    gib: i64,
    is_contrary: bool,
    is_loose: bool,
}

fn expect_volume(claim: &mut Claim, order: &VolumeOrder) -> Expected {
    claim.creating += 1;
    let is_contrary = *order != claim.order;
    if matches!(claim.state, VolumeBelief::Absent) {
        claim.state = VolumeBelief::Unknown;
    }
    Expected { is_contrary, ..Expected::default() }
}

fn expect_no_volume(claim: &mut Claim, id: &str) -> Expected {
    let Some(disk) = claim.disk_mut(id) else { return Expected::default() };
    disk.deleted_in_use |= !disk.nodes().is_empty();
    disk.deleting += 1;
    let disk = disk.clone();
    let is_loose = disk.deleted_in_use;
    claim.state = VolumeBelief::Deleting(disk);
    Expected { is_loose, ..Expected::default() }
}

fn expect_on(disk: &mut Disk, node: usize, zone: &str) -> Expected {
    // A deletion in flight may find the volume attached.
    disk.deleted_in_use |= disk.deleting > 0;
    let in_vain = disk.zone != zone || disk.nodes().into_iter().any(|other| other != node);
    let hold = disk.hold(node);
    hold.asked_in_vain |= in_vain;
    hold.publishing += 1;
    hold.asked += 1;
    if hold.state == AttachmentBelief::Not {
        hold.state = AttachmentBelief::Maybe;
    }
    Expected { others_before: hold.returned, is_loose: hold.asked_in_vain, ..Expected::default() }
}

fn expect_off(disk: &mut Disk, node: usize) -> Expected {
    let hold = disk.hold(node);
    hold.unpublishing += 1;
    hold.returned += 1;
    if hold.state != AttachmentBelief::Not {
        hold.state = AttachmentBelief::Leaving;
    }
    Expected { others_before: hold.asked, ..Expected::default() }
}

fn expect_growth(disk: &mut Disk, gib: i64) -> Expected {
    disk.wanted_gib = disk.wanted_gib.max(gib);
    disk.growing += 1;
    let ratio = disk.changes.ratio_for_growth();
    Expected { others_before: disk.changes.calls, ratio, ..Expected::default() }
}

fn expect_change(disk: &mut Disk, class: &Class) -> Expected {
    disk.changes.ask_for(class);
    Expected { gib: disk.gib, ..Expected::default() }
}

fn expect_snapshot(snap: &mut SnapClaim, order: &SnapOrder) -> Expected {
    snap.creating += 1;
    let is_contrary = *order != snap.order;
    if matches!(snap.state, SnapshotBelief::Absent) {
        snap.state = SnapshotBelief::Unknown;
    }
    Expected { is_contrary, ..Expected::default() }
}

fn expect_no_snapshot(snap: &mut SnapClaim, id: &str) -> Expected {
    match &mut snap.state {
        SnapshotBelief::Exists { id: known, .. } if known == id => {
            snap.state = SnapshotBelief::Deleting { id: id.to_owned(), calls: 1 };
        }
        SnapshotBelief::Deleting { id: known, calls } if known == id => *calls += 1,
        _ => {}
    }
    Expected::default()
}

impl<E: Ec2> World<E> {
    /// Sends a call, unless there is no driver or the sidecar is pausing.
    pub(crate) fn send(&mut self, target: Target, deadline: Deadline) {
        let Some(driver) = self.driver(target.sidecar()) else { return };
        let deadline = match deadline {
            Deadline::Within(time) => time,
            Deadline::Sidecar if self.retries.is_over(&target) => self.retries.time_out(&target),
            Deadline::Sidecar => return,
        };
        if let Target::Create { claim, .. } = &target
            && !self.beliefs.is_free(&self.beliefs.claims[*claim].name, driver.process.id)
        {
            return;
        }
        let rpc = self.rpc(&target);
        let call = self.expect(target.clone(), driver.process.id);
        let id = self.next_call;
        self.next_call += 1;
        self.tell(format!(
            "#{id} {target:?} within {deadline:?}{}",
            if call.is_contrary { ", with conflicting parameters" } else { "" }
        ));
        self.calls.insert(id, call);
        self.history.push(target);
        let called = driver.call(rpc, deadline);
        self.running.spawn(async move { (id, called.await) });
    }

    fn rpc(&self, target: &Target) -> Rpc {
        match target {
            Target::Create { order, .. } => Rpc::CreateVolume(order.request()),
            Target::Delete { id, .. } => Rpc::DeleteVolume(content::delete_volume(id)),
            Target::Publish { id, node, shared } => Rpc::Publish(content::publish(id, &self.nodes[*node].id, *shared)),
            Target::Unpublish { id, node } => Rpc::Unpublish(content::unpublish(id, &self.nodes[*node].id)),
            Target::Expand { id, gib, shared } => Rpc::Expand(content::expand(id, *gib, *shared)),
            Target::Modify { id, class } => class.request(id).map_or_else(Rpc::ModifyProperties, Rpc::Modify),
            Target::Snapshot { snap, order } => Rpc::CreateSnapshot(order.request(&self.beliefs.snaps[*snap].name)),
            Target::DropSnapshot { id, .. } => Rpc::DeleteSnapshot(content::delete_snapshot(id)),
        }
    }

    fn expect(&mut self, target: Target, driver: usize) -> Call {
        let was_sure = match &target {
            Target::Create { order, .. } => self.origin_is_sure(order),
            Target::Snapshot { order, .. } => self.beliefs.is_sure_of(&order.source),
            Target::Delete { id, .. }
            | Target::Publish { id, .. }
            | Target::Unpublish { id, .. }
            | Target::Expand { id, .. }
            | Target::Modify { id, .. } => self.beliefs.is_sure_of(id),
            Target::DropSnapshot { .. } => false,
        };
        let Expected { others_before, ratio, gib, is_contrary, is_loose } = match &target {
            Target::Create { claim, order } => expect_volume(&mut self.beliefs.claims[*claim], order),
            Target::Delete { claim, id } => expect_no_volume(&mut self.beliefs.claims[*claim], id),
            Target::Publish { id, node, .. } => {
                let node_gone = self.nodes[*node].is_gone;
                let zone = if node_gone { String::new() } else { self.nodes[*node].zone.clone() };
                self.beliefs.disk(id).map(|disk| expect_on(disk, *node, &zone)).unwrap_or_default()
            }
            Target::Unpublish { id, node } => {
                self.beliefs.disk(id).map(|disk| expect_off(disk, *node)).unwrap_or_default()
            }
            Target::Expand { id, gib, .. } => {
                self.beliefs.disk(id).map(|disk| expect_growth(disk, *gib)).unwrap_or_default()
            }
            Target::Modify { id, class } => {
                self.beliefs.disk(id).map(|disk| expect_change(disk, class)).unwrap_or_default()
            }
            Target::Snapshot { snap, order } => expect_snapshot(&mut self.beliefs.snaps[*snap], order),
            Target::DropSnapshot { snap, id } => expect_no_snapshot(&mut self.beliefs.snaps[*snap], id),
        };
        Call { target, driver, others_before, ratio, gib, was_sure, is_contrary, is_loose }
    }

    pub(crate) fn origin_is_sure(&self, order: &VolumeOrder) -> bool {
        match &order.origin {
            content::Origin::Blank => true,
            content::Origin::Volume(id) => self.beliefs.is_sure_of(id),
            content::Origin::Snapshot(id) => self.beliefs.snaps.iter().any(|s| {
                !s.twinned && matches!(&s.state, SnapshotBelief::Exists { id: known, ready: true, .. } if known == id)
            }),
        }
    }
}
