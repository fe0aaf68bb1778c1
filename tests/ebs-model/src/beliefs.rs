//! What the orchestrator can conclude from CSI's rules alone. A belief is certain only after a success or a final
//! error. Otherwise the orchestrator can only repeat the request, or send the opposite one.

use std::collections::{BTreeMap, BTreeSet};

use ebs_ec2::Tags;
use tokio::time::Instant;

use crate::classes::Changes;
use crate::content::{SnapOrder, VolumeOrder};
use crate::fault_plan::SETTLE;

#[derive(Debug, Default)]
pub(crate) struct Beliefs {
    pub(crate) claims: Vec<Claim>,
    pub(crate) snaps: Vec<SnapClaim>,
    /// Volumes and snapshots that are certainly deleted. They must never exist again.
    pub(crate) deleted: BTreeSet<String>,
    /// When each volume name became free, and the driver that deleted the volume.
    pub(crate) freed: BTreeMap<String, (Instant, usize)>,
}

#[derive(Debug)]
pub(crate) struct Claim {
    pub(crate) name: String,
    /// The request that led to the current state.
    pub(crate) order: VolumeOrder,
    pub(crate) wish: bool,
    pub(crate) state: VolumeBelief,
    /// Number of CreateVolume calls in flight.
    pub(crate) creating: usize,
    pub(crate) name_is_taken: bool,
}

#[derive(Debug, Clone)]
pub(crate) enum VolumeBelief {
    /// The volume does not exist: it was never requested, was deleted, or failed with a final error.
    Absent,
    /// The volume was requested and has no final response yet.
    Unknown,
    Exists(Disk),
    /// The deletion of the volume was requested, but not confirmed.
    Deleting(Disk),
}

/// A volume whose creation was confirmed.
#[derive(Debug, Clone)]
pub(crate) struct Disk {
    pub(crate) id: String,
    /// The volume's minimum size in GiB.
    pub(crate) gib: i64,
    pub(crate) wanted_gib: i64,
    pub(crate) zone: String,
    pub(crate) shared: bool,
    /// The volume's initial IOPS, if the request set them.
    pub(crate) iops: Option<u32>,
    pub(crate) tags: Tags,
    pub(crate) holds: BTreeMap<usize, Hold>,
    /// The node on which the orchestrator must have the volume at the end.
    pub(crate) home: Option<usize>,
    /// Number of expand calls in flight.
    pub(crate) growing: usize,
    /// Number of final expansion errors since a sidecar began to retry.
    pub(crate) growth_refusals: u32,
    pub(crate) changes: Changes,
    pub(crate) deleting: usize,
    /// True if DeleteVolume was called while the volume was attached: a concurrent DeleteVolume may report that.
    pub(crate) deleted_in_use: bool,
}

/// A volume's state on a node. A node without an entry does not have the volume.
#[derive(Debug, Clone, Default)]
pub(crate) struct Hold {
    pub(crate) state: AttachmentBelief,
    pub(crate) publishing: usize,
    pub(crate) unpublishing: usize,
    /// Number of publish calls since the start of the run. `returned` counts the unpublish calls.
    pub(crate) asked: u64,
    pub(crate) returned: u64,
    /// True if publish was called while the volume could not be attached to the node: a concurrent publish may report
    /// that.
    pub(crate) asked_in_vain: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) enum AttachmentBelief {
    #[default]
    Not,
    /// Publish was called and has not succeeded yet.
    Maybe,
    Attached(String),
    /// Unpublish was called and has not succeeded yet.
    Leaving,
}

#[derive(Debug)]
pub(crate) struct SnapClaim {
    pub(crate) name: String,
    /// The request that led to the current state.
    pub(crate) order: SnapOrder,
    pub(crate) wish: bool,
    pub(crate) state: SnapshotBelief,
    pub(crate) creating: usize,
    /// True if two drivers created the snapshot concurrently, as a lost lease permits. The model then ignores it.
    pub(crate) twinned: bool,
}

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
    /// Returns the nodes that have the volume or may have it.
    pub(crate) fn nodes(&self) -> Vec<usize> {
        self.holds.iter().filter(|(_, hold)| hold.state != AttachmentBelief::Not).map(|(node, _)| *node).collect()
    }

    /// Forgets a terminated node: until the volume is unpublished, it is uncertain whether the volume is attached to
    /// that node.
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
    /// Returns whether the volume is certainly attached, with no request pending.
    pub(crate) fn is_firm(&self) -> bool {
        matches!(self.state, AttachmentBelief::Attached(_)) && self.unpublishing == 0
    }

    /// Returns whether the volume is certainly detached, with no request pending.
    pub(crate) fn is_free(&self) -> bool {
        self.state == AttachmentBelief::Not && self.publishing == 0
    }
}

impl Beliefs {
    pub(crate) fn owner(&mut self, id: &str) -> Option<&mut Claim> {
        self.claims.iter_mut().find(|claim| claim.disk().is_some_and(|disk| disk.id == id))
    }

    pub(crate) fn disk(&mut self, id: &str) -> Option<&mut Disk> {
        self.owner(id)?.disk_mut(id)
    }

    pub(crate) fn by_name(&mut self, name: &str) -> Option<&mut Claim> {
        self.claims.iter_mut().find(|claim| claim.name == name)
    }

    /// Returns whether the name of a volume can be reused at that driver. A driver that did not delete the old volume
    /// itself cannot know that DescribeVolumes calls may still show it. (A real orchestrator never reuses a name.)
    pub(crate) fn is_free(&self, name: &str, driver: usize) -> bool {
        self.freed.get(name).is_none_or(|(since, by)| *by == driver || since.elapsed() > SETTLE)
    }

    /// Returns whether a volume certainly exists and is not being deleted.
    pub(crate) fn is_sure_of(&self, volume: &str) -> bool {
        self.claims.iter().any(|c| matches!(&c.state, VolumeBelief::Exists(disk) if disk.id == volume))
    }
}
