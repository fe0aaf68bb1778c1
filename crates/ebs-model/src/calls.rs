//! The orchestrator's calls: how one is sent, and what it means to have sent it.

use std::time::Duration;

use ebs_ec2::Ec2;

use crate::beliefs::{Claimed, Held, Snapped};
use crate::content::{self, VolumeOrder};
use crate::driver::Rpc;
use crate::world::World;

/// What a call is about.
#[derive(Debug, Clone)]
pub(crate) enum Target {
    Create { claim: usize, order: VolumeOrder },
    Delete { claim: usize, id: String },
    Publish { id: String, node: usize, shared: bool },
    Unpublish { id: String, node: usize },
    Expand { id: String, gib: i64, shared: bool },
    Snapshot { snap: usize, source: String },
    DropSnapshot { snap: usize, id: String },
}

/// A call in flight.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) target: Target,
    /// The driver it went to.
    pub(crate) driver: usize,
    /// Publish and Unpublish: how often the other had been called for the pair by then.
    pub(crate) others_before: u64,
    /// The volume or source was certain to exist when it was sent.
    pub(crate) was_sure: bool,
    /// Another request than the one that goes with the present state.
    pub(crate) is_contrary: bool,
    /// The orchestrator itself knows that it may be refused: the volume is elsewhere, or in use.
    pub(crate) is_loose: bool,
}

impl<E: Ec2> World<E> {
    /// Sends a call; nothing when there is no driver to call.
    pub(crate) fn send(&mut self, target: Target, deadline: Duration) {
        let Some(driver) = self.driver() else { return };
        let name = match &target {
            Target::Create { claim, .. } => &self.beliefs.claims[*claim].name,
            Target::Snapshot { snap, .. } => &self.beliefs.snaps[*snap].name,
            _ => "",
        };
        if !self.beliefs.is_free(name, driver.line.id) {
            return;
        }
        let rpc = self.rpc(&target);
        let call = self.expect(target.clone(), driver.line.id);
        let id = self.next_call;
        self.next_call += 1;
        self.tell(format!("#{id} {target:?} within {deadline:?}{}", if call.is_contrary { ", contrary" } else { "" }));
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
            Target::Snapshot { snap, source } => {
                Rpc::CreateSnapshot(content::create_snapshot(&self.beliefs.snaps[*snap].name, source))
            }
            Target::DropSnapshot { id, .. } => Rpc::DeleteSnapshot(content::delete_snapshot(id)),
        }
    }

    /// What is believed once a call is on its way.
    fn expect(&mut self, target: Target, driver: usize) -> Call {
        let (mut others_before, mut is_contrary, mut is_loose) = (0, false, false);
        let was_sure = match &target {
            Target::Create { order, .. } => self.origin_is_sure(order),
            Target::Snapshot { source, .. } => self.beliefs.is_sure_of(source),
            Target::Delete { id, .. }
            | Target::Publish { id, .. }
            | Target::Unpublish { id, .. }
            | Target::Expand { id, .. } => self.beliefs.is_sure_of(id),
            Target::DropSnapshot { .. } => false,
        };
        let zones: Vec<String> = self.nodes.iter().map(|node| node.zone.clone()).collect();
        let zone_of = |node: usize| zones[node].as_str();
        match &target {
            Target::Create { claim, order } => {
                let claim = &mut self.beliefs.claims[*claim];
                claim.creating += 1;
                is_contrary = *order != claim.order;
                if matches!(claim.state, Claimed::Absent) {
                    claim.state = Claimed::Unknown;
                }
            }
            Target::Delete { claim, id } => {
                let claim = &mut self.beliefs.claims[*claim];
                if let Some(disk) = claim.disk_mut(id) {
                    disk.deleted_in_use |= !disk.nodes().is_empty();
                    is_loose = disk.deleted_in_use;
                    disk.deleting += 1;
                    claim.state = Claimed::Deleting(disk.clone());
                }
            }
            Target::Publish { id, node, .. } => {
                if let Some(disk) = self.beliefs.disk(id) {
                    is_loose = disk.zone != zone_of(*node) || disk.nodes().into_iter().any(|other| other != *node);
                    // A deletion that is on its way may meet it.
                    disk.deleted_in_use |= disk.deleting > 0;
                    let hold = disk.hold(*node);
                    hold.asked_in_vain |= is_loose;
                    is_loose = hold.asked_in_vain;
                    hold.publishing += 1;
                    hold.asked += 1;
                    others_before = hold.returned;
                    if hold.state == Held::Not {
                        hold.state = Held::Maybe;
                    }
                }
            }
            Target::Unpublish { id, node } => {
                if let Some(disk) = self.beliefs.disk(id) {
                    let hold = disk.hold(*node);
                    hold.unpublishing += 1;
                    hold.returned += 1;
                    others_before = hold.asked;
                    if hold.state != Held::Not {
                        hold.state = Held::Leaving;
                    }
                }
            }
            Target::Expand { id, gib, .. } => {
                if let Some(disk) = self.beliefs.disk(id) {
                    disk.wanted_gib = disk.wanted_gib.max(*gib);
                }
            }
            Target::Snapshot { snap, source } => {
                let snap = &mut self.beliefs.snaps[*snap];
                snap.creating += 1;
                is_contrary = *source != snap.source;
                if matches!(snap.state, Snapped::Absent) {
                    snap.state = Snapped::Unknown;
                }
            }
            Target::DropSnapshot { snap, id } => {
                let snap = &mut self.beliefs.snaps[*snap];
                match &mut snap.state {
                    Snapped::Exists { id: known, .. } if known == id => {
                        snap.state = Snapped::Deleting { id: id.clone(), calls: 1 };
                    }
                    Snapped::Deleting { id: known, calls } if known == id => *calls += 1,
                    _ => {}
                }
            }
        }
        Call { target, driver, others_before, was_sure, is_contrary, is_loose }
    }

    pub(crate) fn origin_is_sure(&self, order: &VolumeOrder) -> bool {
        match &order.origin {
            content::Origin::Blank => true,
            content::Origin::Volume(id) => self.beliefs.is_sure_of(id),
            content::Origin::Snapshot(id) => self.beliefs.snaps.iter().any(|s| {
                !s.twinned && matches!(&s.state, Snapped::Exists { id: known, ready: true, .. } if known == id)
            }),
        }
    }
}
