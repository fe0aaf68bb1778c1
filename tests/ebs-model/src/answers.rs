//! Processes responses: updates the orchestrator's beliefs, and checks each response against EC2's state.

use ebs_ec2::Ec2;
use ebs_sim::api::StateView;
use tokio::time::Instant;
use tonic::Code;

use crate::beliefs::{AttachmentBelief, Disk, SnapshotBelief, VolumeBelief};
use crate::classes::Changes;
use crate::content::{self, Origin, SnapOrder, VolumeOrder};
use crate::rpc::{RpcError, RpcReply, RpcResult};
use crate::target::{Call, Target};
use crate::truth::{attachment, is_live, named_snapshots, named_volumes};
use crate::world::{Checked, World, broken};

impl<E: Ec2> World<E> {
    pub(crate) async fn process_response(&mut self, id: u64, answer: RpcResult) -> Checked {
        let Some(call) = self.calls.remove(&id) else { return Ok(()) };
        match &answer {
            Ok(reply) => self.tell(format!("#{id} ok: {}", short(reply))),
            Err(refused) => self.tell(format!("#{id} {:?}: {}", refused.code, refused.message)),
        }
        let is_done = answer.as_ref().is_ok_and(|reply| !matches!(reply, RpcReply::Snapshot(s) if !s.ready_to_use));
        self.retries.record_result(&call.target, is_done);
        let truth = self.sim.engine().snapshot_of_state().await;
        match (call.target.clone(), answer) {
            (Target::Create { claim, order }, answer) => self.created(&call, claim, &order, (answer, &truth)),
            (Target::Delete { claim, id }, answer) => self.deleted(&call, claim, &id, (answer, &truth)),
            (Target::Publish { id, node, .. }, answer) => self.published(&call, &id, node, (answer, &truth)),
            (Target::Unpublish { id, node }, answer) => self.unpublished(&call, &id, node, (answer, &truth)),
            (Target::Expand { id, gib, .. }, answer) => self.expanded(&call, &id, gib, (answer, &truth)),
            (Target::Modify { id, class }, answer) => self.modified(&call, &id, &class, (answer, &truth)),
            (Target::Snapshot { snap, order }, answer) => self.snapshotted(&call, snap, &order, (answer, &truth)),
            (Target::DropSnapshot { snap, id }, answer) => self.snapshot_dropped(snap, &id, (answer, &truth)),
        }
    }

    fn created(
        &mut self,
        call: &Call,
        at: usize,
        order: &VolumeOrder,
        (answer, truth): (RpcResult, &StateView),
    ) -> Checked {
        self.beliefs.claims[at].creating -= 1;
        let name = order.name.clone();
        match answer {
            Ok(RpcReply::Volume(volume)) => {
                if call.is_contrary {
                    return broken(format!(
                        "CreateVolume of {name} succeeded although the existing volume has another content source"
                    ));
                }
                match &self.beliefs.claims[at].state {
                    VolumeBelief::Exists(disk) | VolumeBelief::Deleting(disk) if disk.id != volume.volume_id => {
                        broken(format!("{name} changed from {} to {}", disk.id, volume.volume_id))
                    }
                    VolumeBelief::Exists(_) | VolumeBelief::Deleting(_) => Ok(()),
                    VolumeBelief::Absent | VolumeBelief::Unknown => {
                        let disk = self.check_created(order, &volume, truth)?;
                        self.beliefs.claims[at].state = VolumeBelief::Exists(disk);
                        Ok(())
                    }
                }
            }
            Ok(_) => broken("CreateVolume returned an unexpected reply"),
            Err(refused) => self.creation_refused(call, at, &refused, truth),
        }
    }

    fn check_created(&self, order: &VolumeOrder, volume: &csi_proto::csi::Volume, truth: &StateView) -> Checked<Disk> {
        let (id, name) = (&volume.volume_id, &order.name);
        if self.foreign.contains_key(id) {
            return broken(format!("a foreign volume was adopted: {id} for {name}"));
        }
        if self.beliefs.deleted.contains(id) {
            return broken(format!("the request for {name} returned {id}, which was deleted"));
        }
        let Some(real) = truth.volumes.iter().find(|v| v.id == *id).filter(|v| is_live(v)) else {
            return broken(format!("the request for {name} returned {id}, which EC2 does not have"));
        };
        let zone = volume.accessible_topology.first().and_then(|t| t.segments.values().next()).cloned();
        let origin = match (&real.snapshot_id, &real.source_volume_id) {
            (Some(snapshot), None) => Origin::Snapshot(snapshot.clone()),
            (None, Some(volume)) => Origin::Volume(volume.clone()),
            _ => Origin::Blank,
        };
        let size = i64::from(real.size_gib);
        let kind = order.kind();
        let rules = [
            (zone.as_ref() == Some(&real.zone), "the zone in the reply is not the volume's"),
            (order.origin != Origin::Blank || order.zones.contains(&real.zone), "the zone was not requested"),
            (content::gib(volume.capacity_bytes) == size, "the size in the reply is not the volume's"),
            (size >= order.gib, "the volume is smaller than requested"),
            (real.multi_attach == order.shared, "multi-attach differs from the request"),
            (real.volume_type == kind, "the type differs from the request"),
            (origin == order.origin, "the source differs from the request"),
            (order.key.is_none() || real.encrypted, "the volume is not encrypted"),
            (order.iops.is_none() || real.iops == order.iops, "the IOPS differ from the request"),
            (matches!(real.state.as_str(), "available" | "in-use"), "the volume is not available yet"),
        ];
        if let Some((_, rule)) = rules.iter().find(|(holds, _)| !holds) {
            return broken(format!("CreateVolume of {name} returned {id}, but {rule}: {order:?}, {real:?}"));
        }
        Ok(Disk {
            id: id.clone(),
            gib: size,
            wanted_gib: size,
            zone: real.zone.clone(),
            shared: order.shared,
            iops: order.iops,
            tags: order.tags(),
            holds: Default::default(),
            home: None,
            growing: 0,
            growth_refusals: 0,
            changes: Changes::none(kind),
            deleting: 0,
            deleted_in_use: false,
        })
    }

    fn creation_refused(&mut self, call: &Call, at: usize, refused: &RpcError, truth: &StateView) -> Checked {
        if !refused.is_final(true) {
            return Ok(());
        }
        let is_denial = self.is_denial(refused);
        let claim = &self.beliefs.claims[at];
        let has_origin = claim.order.origin != Origin::Blank;
        let expected = match refused.code {
            _ if is_denial => true,
            // The key of the volume is unusable, or the volume failed.
            Code::FailedPrecondition | Code::Internal
                if claim.order.key.is_some() || !self.network.facts().broken.is_empty() =>
            {
                true
            }
            Code::ResourceExhausted => self.quota_is_small || self.can_lack_room || call.is_contrary,
            Code::AlreadyExists => call.is_contrary || claim.name_is_taken,
            // The source was deleted or is being deleted.
            Code::NotFound | Code::FailedPrecondition if !call.is_contrary => {
                has_origin
                    && (self.origin_was_unknown(&claim.order) || !(call.was_sure && self.origin_is_sure(&claim.order)))
            }
            // The source may have been expanded, but the driver's last describe was too stale to show this.
            Code::OutOfRange => has_origin,
            Code::InvalidArgument => call.is_contrary || matches!(claim.order.origin, Origin::Volume(_)),
            Code::FailedPrecondition => call.is_contrary,
            _ => false,
        };
        if !expected {
            return unexpected("CreateVolume", &claim.name, refused);
        }
        if call.is_contrary {
            return Ok(());
        }
        if let VolumeBelief::Exists(disk) = &claim.state {
            return broken(format!(
                "{} exists as {}, but the same request for it fails: {refused:?}",
                claim.name, disk.id
            ));
        }
        if claim.creating > 0 {
            return Ok(());
        }
        let left: Vec<_> = self.live_of(&claim.name, truth);
        if !left.is_empty() {
            let name = &claim.name;
            return broken(format!(
                "CreateVolume of {name} failed with a final error ({refused:?}) and left {left:?} behind"
            ));
        }
        self.beliefs.claims[at].state = VolumeBelief::Absent;
        Ok(())
    }

    pub(crate) fn live_of(&self, name: &str, truth: &StateView) -> Vec<String> {
        named_volumes(truth, name)
            .filter(|v| is_live(v) && !self.foreign.contains_key(&v.id))
            .map(|v| v.id.clone())
            .collect()
    }

    fn deleted(&mut self, call: &Call, at: usize, id: &str, (answer, truth): (RpcResult, &StateView)) -> Checked {
        let mut is_loose = call.is_loose;
        if let Some(disk) = self.beliefs.claims[at].disk_mut(id) {
            disk.deleting -= 1;
            is_loose |= disk.deleted_in_use;
        }
        match answer {
            Ok(_) => {
                if truth.volumes.iter().any(|v| v.id == id && is_live(v)) {
                    return broken(format!("DeleteVolume of {id} succeeded, but EC2 still has it"));
                }
                self.beliefs.deleted.insert(id.to_owned());
                let claim = &mut self.beliefs.claims[at];
                if claim.disk().is_some_and(|disk| disk.id == id) {
                    claim.state = VolumeBelief::Absent;
                    self.beliefs.freed.insert(claim.name.clone(), (Instant::now(), call.driver));
                }
                Ok(())
            }
            Err(refused) if !refused.is_final(false) || self.is_denial(&refused) => Ok(()),
            // The volume is attached, or was attached when the call arrived.
            Err(refused) if refused.code == Code::FailedPrecondition && is_loose => Ok(()),
            Err(refused) => unexpected("DeleteVolume", id, &refused),
        }
    }

    fn published(&mut self, call: &Call, id: &str, node: usize, (answer, truth): (RpcResult, &StateView)) -> Checked {
        let instance = self.nodes[node].id.clone();
        let node_gone = self.nodes[node].is_gone;
        let is_in_doubt = !self.beliefs.is_sure_of(id) || node_gone;
        let is_denial = answer.as_ref().is_err_and(|refused| self.is_denial(refused));
        let others = self.beliefs.disk(id).map(|disk| disk.nodes().into_iter().any(|n| n != node));
        let Some(disk) = self.beliefs.disk(id) else { return Ok(()) };
        let hold = disk.hold(node);
        hold.publishing -= 1;
        match answer {
            Ok(RpcReply::Published(context)) => {
                let undisturbed = hold.returned == call.others_before && hold.unpublishing == 0 && !node_gone;
                if !undisturbed {
                    return Ok(());
                }
                let device = context.get("devicePath").cloned().unwrap_or_default();
                hold.state = AttachmentBelief::Attached(device.clone());
                hold.asked_in_vain = false;
                match attachment(truth, id, &instance) {
                    Some(real) if real.state == "attached" && real.device == device => Ok(()),
                    real => broken(format!("{id} was published to {instance} as {device}, but EC2 has {real:?}")),
                }
            }
            Ok(_) => broken("Publish returned an unexpected reply"),
            Err(refused) => {
                let expected = match refused.code {
                    // EC2 may report a new object as unknown. An attacher that gets this error loses nothing.
                    Code::NotFound => !call.was_sure || is_in_doubt || self.network.facts().unknown.contains(id),
                    Code::FailedPrecondition => others == Some(true) || call.is_loose || is_in_doubt,
                    _ => is_denial || !refused.is_final(false),
                };
                if expected { Ok(()) } else { unexpected("ControllerPublishVolume", id, &refused) }
            }
        }
    }

    fn unpublished(&mut self, call: &Call, id: &str, node: usize, (answer, truth): (RpcResult, &StateView)) -> Checked {
        let instance = self.nodes[node].id.clone();
        let mut disturbed = false;
        if let Some(disk) = self.beliefs.disk(id) {
            let hold = disk.hold(node);
            hold.unpublishing -= 1;
            disturbed = hold.asked != call.others_before || hold.publishing > 0;
            match (&answer, disturbed) {
                (Ok(_), false) => hold.state = AttachmentBelief::Not,
                (Ok(_), true) if hold.state == AttachmentBelief::Leaving => hold.state = AttachmentBelief::Maybe,
                _ => {}
            }
        }
        match answer {
            Ok(_) if disturbed => Ok(()),
            Ok(_) => match attachment(truth, id, &instance) {
                None => Ok(()),
                Some(real) => broken(format!("{id} was reported detached from {instance}, but EC2 has {real:?}")),
            },
            Err(refused) if !refused.is_final(false) || self.is_denial(&refused) => Ok(()),
            Err(refused) => unexpected("ControllerUnpublishVolume", id, &refused),
        }
    }

    fn snapshotted(
        &mut self,
        call: &Call,
        at: usize,
        order: &SnapOrder,
        (answer, truth): (RpcResult, &StateView),
    ) -> Checked {
        let snap = &mut self.beliefs.snaps[at];
        snap.creating -= 1;
        let name = snap.name.clone();
        if snap.twinned {
            return Ok(());
        }
        match answer {
            Ok(RpcReply::Snapshot(answered)) => {
                if call.is_contrary {
                    return broken(format!(
                        "CreateSnapshot of {name} succeeded although the existing snapshot has another source"
                    ));
                }
                match &mut snap.state {
                    SnapshotBelief::Exists { id, .. } | SnapshotBelief::Deleting { id, .. }
                        if *id != answered.snapshot_id =>
                    {
                        return broken(format!("{name} changed from {id} to {}", answered.snapshot_id));
                    }
                    SnapshotBelief::Exists { ready, .. } => *ready |= answered.ready_to_use,
                    SnapshotBelief::Deleting { .. } => {}
                    SnapshotBelief::Absent | SnapshotBelief::Unknown => {
                        let (id, gib) = (answered.snapshot_id.clone(), content::gib(answered.size_bytes));
                        snap.state = SnapshotBelief::Exists { id, ready: answered.ready_to_use, gib };
                    }
                }
                self.check_snapshot(&name, order, &answered, truth)
            }
            Ok(_) => broken("CreateSnapshot returned an unexpected reply"),
            Err(refused) => self.snapshot_refused(call, at, &refused, truth),
        }
    }

    fn check_snapshot(
        &self,
        name: &str,
        order: &SnapOrder,
        answered: &csi_proto::csi::Snapshot,
        truth: &StateView,
    ) -> Checked {
        let (id, source) = (&answered.snapshot_id, &order.source);
        let options_applied = (!order.locked || self.is_locked(id, truth))
            && order.fast_in.iter().all(|zone| self.network.is_restored_fast(id, zone));
        let is_deleting =
            self.beliefs.snaps.iter().any(|s| matches!(&s.state, SnapshotBelief::Deleting { id: d, .. } if d == id));
        let Some(real) = truth.snapshots.iter().find(|s| s.id == *id) else {
            let what = format!("the request for {name} returned {id}, which EC2 does not have");
            return if is_deleting { Ok(()) } else { broken(what) };
        };
        let rules = [
            (!self.foreign_snapshots.contains(id), "the snapshot is foreign"),
            (answered.source_volume_id == *source && real.volume_id == *source, "the source differs from the request"),
            (
                content::gib(answered.size_bytes) == i64::from(real.size_gib),
                "the size in the reply is not the snapshot's",
            ),
            (!answered.ready_to_use || real.state == "completed", "the snapshot is reported ready but is not"),
            (
                !answered.ready_to_use || options_applied,
                "the snapshot is reported ready without its lock or fast restores",
            ),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, rule)) => {
                broken(format!("CreateSnapshot of {name} returned {id}, but {rule}: {answered:?}, {real:?}"))
            }
            None => Ok(()),
        }
    }

    fn snapshot_refused(&mut self, call: &Call, at: usize, refused: &RpcError, truth: &StateView) -> Checked {
        let snap = &self.beliefs.snaps[at];
        if !refused.is_final(false) {
            return Ok(());
        }
        let name_is_taken = named_snapshots(truth, &snap.name).any(|s| self.foreign_snapshots.contains(&s.id));
        let expected = match refused.code {
            _ if self.is_denial(refused) => true,
            Code::AlreadyExists => call.is_contrary || name_is_taken,
            Code::NotFound | Code::FailedPrecondition => {
                self.network.facts().unknown.contains(&snap.order.source)
                    || !(call.was_sure && self.beliefs.is_sure_of(&snap.order.source))
            }
            // The quota of fast restores is used up.
            Code::Internal => self.few_fast_restores && !snap.order.fast_in.is_empty(),
            _ => false,
        };
        if !expected {
            return unexpected("CreateSnapshot", &snap.name, refused);
        }
        let name = &snap.name;
        match snap.state {
            _ if call.is_contrary => return Ok(()),
            SnapshotBelief::Exists { .. } => {
                return broken(format!("{name} exists, but the same request for it fails: {refused:?}"));
            }
            _ if snap.creating > 0 => return Ok(()),
            _ => {}
        }
        let left: Vec<_> =
            named_snapshots(truth, name).filter(|s| !self.foreign_snapshots.contains(&s.id)).map(|s| &s.id).collect();
        if !left.is_empty() {
            return broken(format!(
                "CreateSnapshot of {name} failed with a final error ({refused:?}) and left {left:?} behind"
            ));
        }
        self.beliefs.snaps[at].state = SnapshotBelief::Absent;
        Ok(())
    }

    fn snapshot_dropped(&mut self, at: usize, id: &str, (answer, truth): (RpcResult, &StateView)) -> Checked {
        let snap = &mut self.beliefs.snaps[at];
        if let SnapshotBelief::Deleting { id: known, calls } = &mut snap.state
            && known == id
        {
            *calls -= 1;
        }
        match answer {
            Ok(_) => {
                if truth.snapshots.iter().any(|s| s.id == id) {
                    return broken(format!("DeleteSnapshot of {id} succeeded, but EC2 still has it"));
                }
                if matches!(&snap.state, SnapshotBelief::Deleting { id: known, .. } if known == id) {
                    snap.state = SnapshotBelief::Absent;
                }
                self.beliefs.deleted.insert(id.to_owned());
                Ok(())
            }
            Err(refused) if !refused.is_final(false) || self.is_denial(&refused) => Ok(()),
            Err(refused) if refused.code == Code::FailedPrecondition && self.network.has_fast_restores(id) => {
                self.ask_to_switch_off(id);
                Ok(())
            }
            Err(refused) if refused.code == Code::FailedPrecondition && self.is_locked(id, truth) => Ok(()),
            Err(refused) => unexpected("DeleteSnapshot", id, &refused),
        }
    }

    /// Returns whether the snapshot was ever locked. A describe shows a new lock before EC2 answers the call that made
    /// it, and the model records the lock only with that answer.
    fn is_locked(&self, snapshot: &str, truth: &StateView) -> bool {
        self.network.facts().locked.contains(snapshot) || truth.locks.iter().any(|lock| lock.snapshot_id == snapshot)
    }

    /// Returns whether EC2 ever reported the source of the volume as unknown.
    fn origin_was_unknown(&self, order: &VolumeOrder) -> bool {
        match &order.origin {
            Origin::Blank => false,
            Origin::Snapshot(id) | Origin::Volume(id) => self.network.facts().unknown.contains(id),
        }
    }

    /// Returns whether the response reports a missing permission or a rejected signature, as EC2 did.
    pub(crate) fn is_denial(&self, refused: &RpcError) -> bool {
        match refused.code {
            Code::PermissionDenied => self.network.facts().denied,
            Code::Unauthenticated => self.network.facts().wrong_clock,
            _ => false,
        }
    }
}

pub(crate) fn unexpected(rpc: &str, what: &str, refused: &RpcError) -> Checked {
    broken(format!("{rpc} of {what} failed with {:?} without a reason: {}", refused.code, refused.message))
}

fn short(reply: &RpcReply) -> String {
    match reply {
        RpcReply::Volume(volume) => format!("{} of {} GiB", volume.volume_id, content::gib(volume.capacity_bytes)),
        RpcReply::Published(context) => context.get("devicePath").cloned().unwrap_or_default(),
        RpcReply::Expanded(bytes) => format!("{} GiB", content::gib(*bytes)),
        RpcReply::Snapshot(s) => format!("{}{}", s.snapshot_id, if s.ready_to_use { ", ready" } else { "" }),
        RpcReply::Done => String::new(),
    }
}
