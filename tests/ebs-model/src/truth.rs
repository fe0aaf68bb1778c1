//! Compares the state of EC2 with the promises of the drivers.

use ebs_ec2::{DriverName, Ec2};
use ebs_sim::api::StateView;
use ebs_sim::api::{SimAttachment, SimSnapshot, SimVolume};

use crate::beliefs::{AttachmentBelief, Disk, SnapshotBelief, VolumeBelief};
use crate::network::{Ec2Event, EventKind};
use crate::sidecar::Sidecar;
use crate::world::{Checked, World, broken};

pub(crate) fn is_live(volume: &SimVolume) -> bool {
    !matches!(volume.state.as_str(), "deleting" | "deleted")
}

pub(crate) fn attachment<'a>(truth: &'a StateView, volume: &str, instance: &str) -> Option<&'a SimAttachment> {
    let volume = truth.volumes.iter().find(|v| v.id == volume)?;
    volume.attachments.iter().find(|a| a.instance_id == instance)
}

pub(crate) fn named_volumes<'a>(truth: &'a StateView, name: &'a str) -> impl Iterator<Item = &'a SimVolume> {
    truth.volumes.iter().filter(move |v| v.tags.get(DriverName::VOLUME_NAME_TAG).is_some_and(|n| n == name))
}

pub(crate) fn named_snapshots<'a>(truth: &'a StateView, name: &'a str) -> impl Iterator<Item = &'a SimSnapshot> {
    truth.snapshots.iter().filter(move |s| s.tags.get(DriverName::SNAPSHOT_NAME_TAG).is_some_and(|n| n == name))
}

impl<E: Ec2> World<E> {
    pub(crate) async fn check(&mut self) -> Checked {
        self.check_events()?;
        if let Some(rule) = self.network.take_violations().into_iter().next() {
            return broken(rule);
        }
        let truth = self.sim.engine().snapshot_of_state().await;
        self.check_volumes(&truth)?;
        self.check_names(&truth)?;
        self.check_snapshots(&truth)?;
        self.check_foreign(&truth)
    }

    fn check_volumes(&self, truth: &StateView) -> Checked {
        for claim in &self.beliefs.claims {
            let live = self.live_of(&claim.name, truth);
            if live.len() > 1 {
                return broken(format!("{} has several volumes: {live:?}", claim.name));
            }
            match &claim.state {
                VolumeBelief::Absent if !live.is_empty() => {
                    return broken(format!("{} was abandoned after a final error, but {live:?} exists", claim.name));
                }
                VolumeBelief::Exists(disk) => self.check_disk(&claim.name, disk, truth)?,
                VolumeBelief::Absent | VolumeBelief::Unknown | VolumeBelief::Deleting(_) => {}
            }
        }
        let back = truth.volumes.iter().find(|v| self.beliefs.deleted.contains(&v.id) && is_live(v));
        if let Some(volume) = back {
            return broken(format!("{} was deleted but still exists", volume.id));
        }
        let known = |v: &&SimVolume| {
            self.foreign.contains_key(&v.id)
                || v.attachments.iter().any(|a| a.delete_on_termination)
                || self.beliefs.claims.iter().any(|c| v.tags.get(DriverName::VOLUME_NAME_TAG) == Some(&c.name))
        };
        match truth.volumes.iter().find(|v| is_live(v) && !known(v)) {
            Some(volume) => broken(format!("volume without a name: {volume:?}")),
            None => Ok(()),
        }
    }

    fn check_disk(&self, name: &str, disk: &Disk, truth: &StateView) -> Checked {
        let Some(real) = truth.volumes.iter().find(|v| v.id == disk.id && is_live(v)) else {
            return broken(format!("{name} is lost: {} was deleted without a request", disk.id));
        };
        if i64::from(real.size_gib) < disk.gib {
            return broken(format!("{name} shrank from {} GiB to {}", disk.gib, real.size_gib));
        }
        if let Some((key, value)) = disk.tags.iter().find(|(key, value)| real.tags.get(*key) != Some(*value)) {
            return broken(format!("{name}, {}, has lost its tag {key}={value}: {:?}", disk.id, real.tags));
        }
        if disk.changes.calls == 0 && disk.iops.is_some_and(|iops| real.iops < Some(iops)) {
            return broken(format!("{name}, {}, changed from {:?} IOPS to {:?}", disk.id, disk.iops, real.iops));
        }
        if let (None, Some((class, gib))) = (&disk.changes.pending, &disk.changes.applied)
            && let Some(what) = class.missing_in(real, *gib)
        {
            return broken(format!("{name}, {}, has lost the {what} of {class:?}: {real:?}", disk.id));
        }
        for (node, hold) in &disk.holds {
            let instance = &self.nodes[*node].id;
            let attachment = attachment(truth, &disk.id, instance);
            match (&hold.state, attachment) {
                (AttachmentBelief::Attached(device), real)
                    if hold.is_firm() && real.is_none_or(|a| a.state != "attached" || a.device != *device) =>
                {
                    return broken(format!(
                        "{} was published to {instance} as {device}, but EC2 now has {real:?}",
                        disk.id
                    ));
                }
                (AttachmentBelief::Not, Some(real)) if hold.is_free() => {
                    return broken(format!("{} was detached from {instance}, but EC2 now has {real:?}", disk.id));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Checks that no driver requests a device name that it has assigned to another volume, which EC2 would reject.
    fn check_names(&mut self, truth: &StateView) -> Checked {
        for event in std::mem::take(&mut self.names_taken) {
            let EventKind::NameTaken { volume, instance, device } = &event.what else { continue };
            let Some(other) = event.process.has_given(instance, device).filter(|other| other != volume) else {
                continue;
            };
            if attachment(truth, &other, instance).is_some_and(|a| a.device == *device) {
                let id = event.process.id;
                return broken(format!(
                    "driver {id} requests {device} on {instance} for {volume} but has assigned it to {other}"
                ));
            }
        }
        Ok(())
    }

    fn check_snapshots(&mut self, truth: &StateView) -> Checked {
        for snap in &self.beliefs.snaps {
            if snap.twinned {
                continue;
            }
            let ours = |s: &&SimSnapshot| !self.foreign_snapshots.contains(&s.id);
            let found: Vec<&SimSnapshot> = named_snapshots(truth, &snap.name).filter(ours).collect();
            if found.len() > 1 {
                let ids: Vec<&String> = found.iter().map(|s| &s.id).collect();
                return broken(format!("{} has several snapshots: {ids:?}", snap.name));
            }
            match &snap.state {
                SnapshotBelief::Absent if !found.is_empty() => {
                    return broken(format!(
                        "{} was abandoned after a final error, but {} exists",
                        snap.name, found[0].id
                    ));
                }
                SnapshotBelief::Exists { id, .. } if found.first().is_none_or(|s| s.id != *id) => {
                    return broken(format!("{} is lost: {id} was deleted without a request", snap.name));
                }
                SnapshotBelief::Exists { gib, .. } if i64::from(found[0].size_gib) != *gib => {
                    return broken(format!("{} changed from {gib} GiB to {}", snap.name, found[0].size_gib));
                }
                _ => {}
            }
            let ownership = crate::content::ownership();
            for key in ["ebs.csi.aws.com/cluster", "kubernetes.io/cluster/blue"] {
                if let Some(real) = found.iter().find(|s| s.tags.get(key) != ownership.get(key)) {
                    return broken(format!("{}, {}, has lost its tag {key}: {:?}", snap.name, real.id, real.tags));
                }
            }
        }
        let back = truth.snapshots.iter().find(|s| self.beliefs.deleted.contains(&s.id));
        match back {
            Some(snapshot) => broken(format!("{} was deleted but still exists", snapshot.id)),
            None => Ok(()),
        }
    }

    fn check_foreign(&self, truth: &StateView) -> Checked {
        for (id, before) in &self.foreign {
            let now = truth.volumes.iter().find(|v| v.id == *id);
            let same = now.is_some_and(|now| {
                (now.size_gib, &now.tags, now.attachments.len())
                    == (before.size_gib, &before.tags, before.attachments.len())
            });
            if !same {
                return broken(format!("a foreign volume was changed from {before:?} to {now:?}"));
            }
        }
        match self.foreign_snapshots.iter().find(|id| !truth.snapshots.iter().any(|s| s.id == **id)) {
            Some(id) => broken(format!("a foreign snapshot was deleted: {id}")),
            None => Ok(()),
        }
    }

    /// Compares EC2's new changes with the orchestrator's current beliefs.
    pub(crate) fn check_events(&mut self) -> Checked {
        for event in self.network.take_events() {
            match &event.what {
                EventKind::Created { name, id } => self.saw_created(&event, name, id)?,
                EventKind::Attached { volume, instance } => self.saw_attached(&event, volume, instance)?,
                EventKind::Detached { volume, instance } => self.saw_detached(&event, volume, instance),
                EventKind::Snapshotted { name, id } => self.saw_snapshotted(&event, name, id)?,
                EventKind::NameTaken { .. } => self.names_taken.push(event),
                EventKind::Gone { .. } | EventKind::Locked { .. } | EventKind::Restoring { .. } | EventKind::Other => {}
            }
        }
        Ok(())
    }

    fn saw_created(&mut self, event: &Ec2Event, name: &str, id: &str) -> Checked {
        let Some(claim) = self.beliefs.by_name(name) else {
            return broken(format!("no client requested {name}: {id}"));
        };
        let is_old = self.made.contains(id);
        self.made.insert(id.to_owned());
        match &claim.state {
            _ if is_old => Ok(()),
            VolumeBelief::Unknown => Ok(()),
            state => broken(format!("{name} is {state:?}, but driver {} creates {id}", event.process.id)),
        }
    }

    fn saw_attached(&mut self, event: &Ec2Event, volume: &str, instance: &str) -> Checked {
        let node = self.nodes.iter().position(|n| n.id == instance);
        let (Some(node), Some(disk)) = (node, self.beliefs.disk(volume)) else {
            return broken(format!(
                "driver {} attaches {volume} to {instance}, which no client requested",
                event.process.id
            ));
        };
        let hold = disk.hold(node);
        if hold.state != AttachmentBelief::Not {
            return Ok(());
        }
        broken(format!("driver {} attaches {volume} to {instance} after a successful detach", event.process.id))
    }

    /// Checks a detach. A detach that was in flight when its process died or lost a lease may undo a later attach of
    /// the next process.
    fn saw_detached(&mut self, event: &Ec2Event, volume: &str, instance: &str) {
        let node = self.nodes.iter().position(|n| n.id == instance);
        let is_excused = event.process.had_in_flight(Sidecar::Attacher, event.sent);
        if let (Some(node), Some(disk)) = (node, self.beliefs.disk(volume))
            && is_excused
            && matches!(disk.hold(node).state, AttachmentBelief::Attached(_))
        {
            disk.hold(node).state = AttachmentBelief::Maybe;
            self.tell(format!(
                "{volume} is detached late from {instance}: allowed after the loss of a process or lease"
            ));
        }
    }

    fn saw_snapshotted(&mut self, event: &Ec2Event, name: &str, id: &str) -> Checked {
        let before = self.snapshot_events.iter().rfind(|(n, _, _)| n == name).cloned();
        self.snapshot_events.push((name.to_owned(), id.to_owned(), event.clone()));
        let is_excused = event.process.had_in_flight_at_loss(Sidecar::Snapshotter, event.sent)
            || before.as_ref().is_some_and(|(_, id, earlier)| {
                // The new driver could not see the old driver's snapshot yet. The new driver had been running for a
                // while, so it skipped the wait after a start.
                earlier.process.id != event.process.id
                    && earlier.process.had_in_flight_at_loss(Sidecar::Snapshotter, earlier.sent)
                    && event.process.started <= earlier.at
                    && !self.network.facts().gone.contains(id)
            });
        let Some(snap) = self.beliefs.snaps.iter_mut().find(|s| s.name == name) else {
            return broken(format!("no client requested {name}: {id}"));
        };
        let known = match &snap.state {
            SnapshotBelief::Exists { id, .. } | SnapshotBelief::Deleting { id, .. } => Some(id),
            SnapshotBelief::Absent | SnapshotBelief::Unknown => None,
        };
        if known.is_some_and(|known| known == id) {
            // Another call saw the object before the caller got the response.
            return Ok(());
        }
        let is_second = before.is_some_and(|(_, id, _)| !self.network.facts().gone.contains(&id));
        let was_expected = matches!(snap.state, SnapshotBelief::Unknown) && !is_second;
        if was_expected || snap.twinned {
            return Ok(());
        }
        if is_excused {
            snap.twinned = true;
            self.tell(format!("{name} was created twice: allowed after the loss of a lease"));
            return Ok(());
        }
        broken(format!("{name} is {:?}, but driver {} creates {id}", snap.state, event.process.id))
    }
}
