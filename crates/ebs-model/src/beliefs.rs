//! What the orchestrator believes, by CSI's rules alone.
//!
//! A belief is certain only when the last word was a success, or an error that the sidecars take for final.
//! In between, a call may have been carried out, may be on its way, or may come to nothing: then
//! the only way on is the same request again, or the request that undoes it.

use std::collections::{BTreeMap, BTreeSet};

use ebs_types::Tags;
use tokio::time::Instant;

use crate::classes::Changes;
use crate::content::{SnapOrder, VolumeOrder};
use crate::fault_plan::SETTLE;

/// Everything the orchestrator believes.
#[derive(Debug, Default)]
pub(crate) struct Beliefs {
    pub(crate) claims: Vec<Claim>,
    pub(crate) snaps: Vec<SnapClaim>,
    /// Volumes and snapshots that were deleted for certain: they must never be seen alive again.
    pub(crate) deleted: BTreeSet<String>,
    /// When a name became free, and at which driver.
    pub(crate) freed: BTreeMap<String, (Instant, usize)>,
}

/// A volume by its name.
#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) name: String,
    /// The content of the request that goes with the present state.
    pub(crate) order: VolumeOrder,
    pub(crate) wish: bool,
    pub(crate) state: VolumeBelief,
    /// CreateVolume calls in flight.
    pub(crate) creating: usize,
    /// Refused for good by a driver that the provisioner had called since then.
    pub(crate) refused_in: Option<Instant>,
    /// A foreign volume carries the name.
    pub(crate) name_is_taken: bool,
}

/// What is believed of a volume.
#[derive(Debug, Clone)]
pub(crate) enum VolumeBelief {
    /// There is none: never asked for, deleted, or refused for good.
    Absent,
    /// Asked for, not answered for good.
    Unknown,
    Exists(Disk),
    /// To be deleted, not confirmed.
    Deleting(Disk),
}

/// A volume that was once confirmed.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) id: String,
    /// At least so large.
    pub(crate) gib: i64,
    /// The largest size asked for.
    pub(crate) wanted_gib: i64,
    pub(crate) zone: String,
    pub(crate) shared: bool,
    /// What it was made with, where the request named them.
    pub(crate) iops: Option<u32>,
    pub(crate) tags: Tags,
    /// By node.
    pub(crate) holds: BTreeMap<usize, Hold>,
    /// The node on which the orchestrator wants it in the end.
    pub(crate) home: Option<usize>,
    /// Expand calls in flight.
    pub(crate) growing: usize,
    /// So often growth was refused for good since a sidecar began to try.
    pub(crate) growth_refusals: u32,
    pub(crate) changes: Changes,
    pub(crate) deleting: usize,
    /// A deletion was asked for while it was on a node: one that joins it may hear of that.
    pub(crate) deleted_in_use: bool,
}

/// A volume on a node; a node that is not listed does not have it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hold {
    pub(crate) state: AttachmentBelief,
    pub(crate) publishing: usize,
    pub(crate) unpublishing: usize,
    /// How often it was asked for, and given back, since the run began.
    pub(crate) asked: u64,
    pub(crate) returned: u64,
    /// Given back by a driver that the attacher had called since then.
    pub(crate) freed_in: Option<Instant>,
    /// It was asked for while it could not be had: a call that joins that one may hear of it.
    pub(crate) asked_in_vain: bool,
}

/// What is believed of a volume on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum AttachmentBelief {
    /// Not there, for certain.
    #[default]
    Not,
    /// Publish was called and has not succeeded.
    Maybe,
    /// There, as this device.
    Attached(String),
    /// Unpublish was called and has not succeeded.
    Leaving,
}

/// A snapshot by its name.
#[derive(Debug)]
pub(crate) struct SnapClaim {
    pub(crate) name: String,
    /// What goes with the present state.
    pub(crate) order: SnapOrder,
    pub(crate) wish: bool,
    pub(crate) state: SnapshotBelief,
    pub(crate) creating: usize,
    /// Two drivers have taken it at once: what a lost lease allows. Nothing is expected of it any more.
    pub(crate) twinned: bool,
}

/// What is believed of a snapshot.
#[derive(Debug, Clone)]
pub(crate) enum SnapshotBelief {
    Absent,
    Unknown,
    Exists { id: String, ready: bool, gib: i64 },
    Deleting { id: String, calls: usize },
}

impl Claim {
    pub(crate) fn disk(&self) -> Option<&Disk> {
        match &self.state {
            VolumeBelief::Exists(disk) | VolumeBelief::Deleting(disk) => Some(disk),
            VolumeBelief::Absent | VolumeBelief::Unknown => None,
        }
    }

    pub(crate) fn disk_mut(&mut self, id: &str) -> Option<&mut Disk> {
        match &mut self.state {
            VolumeBelief::Exists(disk) | VolumeBelief::Deleting(disk) if disk.id == id => Some(disk),
            _ => None,
        }
    }
}

impl Disk {
    /// The nodes that have it or may have it.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        self.holds.iter().filter(|(_, hold)| hold.state != AttachmentBelief::Not).map(|(node, _)| *node).collect()
    }

    /// The node is no more: what was there is in doubt until it has been given back.
    pub(crate) fn lose_node(&mut self, node: usize) {
        if let Some(hold) = self.holds.get_mut(&node)
            && hold.state != AttachmentBelief::Not
        {
            hold.state = AttachmentBelief::Maybe;
        }
        if self.home == Some(node) {
            self.home = None;
        }
    }

    pub(crate) fn hold(&mut self, node: usize) -> &mut Hold {
        self.holds.entry(node).or_default()
    }
}

impl Hold {
    /// Attached for certain, and nobody has asked for anything else.
    pub(crate) fn is_firm(&self) -> bool {
        matches!(self.state, AttachmentBelief::Attached(_)) && self.unpublishing == 0
    }

    /// Detached for certain, and nobody has asked for anything else.
    pub(crate) fn is_free(&self) -> bool {
        self.state == AttachmentBelief::Not && self.publishing == 0
    }
}

impl Beliefs {
    /// The claim that a volume belongs to.
    pub(crate) fn owner(&mut self, id: &str) -> Option<&mut Claim> {
        self.claims.iter_mut().find(|claim| claim.disk().is_some_and(|disk| disk.id == id))
    }

    pub(crate) fn disk(&mut self, id: &str) -> Option<&mut Disk> {
        self.owner(id)?.disk_mut(id)
    }

    pub(crate) fn by_name(&mut self, name: &str) -> Option<&mut Claim> {
        self.claims.iter_mut().find(|claim| claim.name == name)
    }

    /// Whether a name may be used anew at that driver: another one than deleted what carried it cannot know that looks
    /// may still show it. (No orchestrator takes a name twice at all.)
    pub(crate) fn is_free(&self, name: &str, driver: usize) -> bool {
        self.freed.get(name).is_none_or(|(since, by)| *by == driver || since.elapsed() > SETTLE)
    }

    /// Whether a volume exists for certain and nobody is deleting it.
    pub(crate) fn is_sure_of(&self, volume: &str) -> bool {
        self.claims.iter().any(|c| matches!(&c.state, VolumeBelief::Exists(disk) if disk.id == volume))
    }
}
