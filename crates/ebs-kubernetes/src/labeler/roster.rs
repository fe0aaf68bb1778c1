//! What the labeler remembers about the cluster: each node's instance, labels and next check, and the volume of each
//! PersistentVolume. It keeps nothing else of the objects.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use ebs_ec2::{DriverName, InstanceId, VolumeId};
use tokio::time::Instant;

use super::Times;
use super::count::{Described, Values};
use crate::node_metadata::{LabelKeys, described_instance};
use crate::object::{NodeObject, VolumeObject};

#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    uid: String,
    instance: InstanceId,
    /// The current labels. `None` means that the label is missing.
    interfaces: Option<String>,
    volumes: Option<String>,
    due: Instant,
    failures: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Due {
    pub(super) node: String,
    pub(super) instance: InstanceId,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) node: String,
    /// The uid of the Node. Another Node with the same name may have replaced it.
    pub(super) uid: String,
    pub(super) values: Values,
}

/// What the labeler knows about the cluster.
#[derive(Debug)]
pub(super) struct Roster {
    driver: DriverName,
    keys: LabelKeys,
    times: Times,
    nodes: BTreeMap<String, Entry>,
    volumes: BTreeMap<String, VolumeId>,
    /// The lists that are being read. Until a list is complete, the previous entries remain valid.
    new_nodes: Option<BTreeMap<String, Entry>>,
    new_volumes: Option<BTreeMap<String, VolumeId>>,
    nodes_are_known: bool,
    volumes_are_known: bool,
}

impl Roster {
    pub(super) fn new(driver: DriverName, times: Times) -> Self {
        Self {
            keys: LabelKeys::of(&driver),
            driver,
            times,
            nodes: BTreeMap::new(),
            volumes: BTreeMap::new(),
            new_nodes: None,
            new_volumes: None,
            nodes_are_known: false,
            volumes_are_known: false,
        }
    }

    pub(super) fn keys(&self) -> &LabelKeys {
        &self.keys
    }

    /// Returns true once both lists have been read completely. Before that, the labeler would count the volume of a
    /// PersistentVolume that it does not know yet.
    pub(super) fn is_complete(&self) -> bool {
        self.nodes_are_known && self.volumes_are_known
    }

    pub(super) fn list_of_nodes_begins(&mut self) {
        self.new_nodes = Some(BTreeMap::new());
    }

    pub(super) fn listed_node(&mut self, node: &NodeObject) {
        let entry = self.entry(node);
        if let (Some(list), Some(entry)) = (&mut self.new_nodes, entry) {
            list.insert(node.name().to_owned(), entry);
        }
    }

    pub(super) fn list_of_nodes_ends(&mut self) {
        self.nodes = self.new_nodes.take().unwrap_or_default();
        self.nodes_are_known = true;
    }

    pub(super) fn changed_node(&mut self, node: &NodeObject) {
        match self.entry(node) {
            Some(entry) => drop(self.nodes.insert(node.name().to_owned(), entry)),
            None => drop(self.nodes.remove(node.name())),
        }
    }

    pub(super) fn deleted_node(&mut self, node: &NodeObject) {
        self.nodes.remove(node.name());
    }

    pub(super) fn list_of_volumes_begins(&mut self) {
        self.new_volumes = Some(BTreeMap::new());
    }

    pub(super) fn listed_volume(&mut self, volume: &VolumeObject) {
        let id = volume.ebs_volume(&self.driver);
        if let (Some(list), Some(id)) = (&mut self.new_volumes, id) {
            list.insert(volume.name().to_owned(), id);
        }
    }

    pub(super) fn list_of_volumes_ends(&mut self) {
        self.volumes = self.new_volumes.take().unwrap_or_default();
        self.volumes_are_known = true;
    }

    pub(super) fn changed_volume(&mut self, volume: &VolumeObject) {
        match volume.ebs_volume(&self.driver) {
            Some(id) => drop(self.volumes.insert(volume.name().to_owned(), id)),
            None => drop(self.volumes.remove(volume.name())),
        }
    }

    pub(super) fn deleted_volume(&mut self, volume: &VolumeObject) {
        self.volumes.remove(volume.name());
    }

    /// Returns a node's current entry, or `None` if EC2 does not describe its instance. A new node is due at once, and
    /// so is a node with a new instance. A node whose labels another client changed is due soon.
    fn entry(&self, node: &NodeObject) -> Option<Entry> {
        let instance = described_instance(node)?;
        let label = |key: &str| node.label(key).map(str::to_owned);
        let uid = node.metadata.uid.clone().unwrap_or_default();
        let (interfaces, volumes) = (label(&self.keys.interfaces), label(&self.keys.volumes));
        let now = Instant::now();
        let fresh =
            |due, failures| Entry { uid: uid.clone(), instance: instance.clone(), interfaces, volumes, due, failures };
        Some(match self.nodes.get(node.name()) {
            Some(known) if known.uid == uid && known.instance == instance => {
                let is_as_known =
                    known.interfaces == label(&self.keys.interfaces) && known.volumes == label(&self.keys.volumes);
                let due = if is_as_known { known.due } else { known.due.min(now + self.times.drift) };
                fresh(due, known.failures)
            }
            _ => fresh(now, 0),
        })
    }

    pub(super) fn next_due(&self) -> Option<Instant> {
        self.nodes.values().map(|entry| entry.due).min()
    }

    /// Returns the nodes that are due now or soon, so that they share calls.
    pub(super) fn due(&self) -> Vec<Due> {
        let until = Instant::now() + self.times.gather;
        let due = self.nodes.iter().filter(|(_, entry)| entry.due <= until);
        due.map(|(node, entry)| Due { node: node.clone(), instance: entry.instance.clone() }).collect()
    }

    /// Returns the change that a node's labels need. Returns `None` if the labels are right or the node was replaced.
    /// If they are right, the next check is due after the refresh interval.
    pub(super) fn described(
        &mut self,
        due: &Due,
        described: &Described,
        persistent: &HashSet<VolumeId>,
    ) -> Option<Change> {
        let next = Instant::now() + self.times.refresh;
        let entry = self.nodes.get_mut(&due.node).filter(|entry| entry.instance == due.instance)?;
        let values = described.values(persistent);
        if entry.interfaces.as_ref() == Some(&values.interfaces) && entry.volumes.as_ref() == Some(&values.volumes) {
            (entry.due, entry.failures) = (next, 0);
            return None;
        }
        Some(Change { node: due.node.clone(), uid: entry.uid.clone(), values })
    }

    /// Records that a node's labels have been written.
    pub(super) fn labelled(&mut self, change: &Change) {
        let next = Instant::now() + self.times.refresh;
        if let Some(entry) = self.nodes.get_mut(&change.node).filter(|entry| entry.uid == change.uid) {
            entry.interfaces = Some(change.values.interfaces.clone());
            entry.volumes = Some(change.values.volumes.clone());
            (entry.due, entry.failures) = (next, 0);
        }
    }

    /// Schedules a retry after a failure. Each pause is longer than the previous one.
    pub(super) fn failed(&mut self, node: &str) {
        let (first, longest) = (self.times.first_retry, self.times.refresh);
        if let Some(entry) = self.nodes.get_mut(node) {
            entry.due = Instant::now() + pause(first, longest, entry.failures);
            entry.failures = entry.failures.saturating_add(1);
        }
    }

    pub(super) fn persistent(&self) -> HashSet<VolumeId> {
        self.volumes.values().cloned().collect()
    }

    pub(super) fn size(&self) -> (usize, usize) {
        (self.nodes.len(), self.volumes.len())
    }
}

fn pause(first: Duration, longest: Duration, failures: u32) -> Duration {
    first.saturating_mul(2_u32.saturating_pow(failures.min(20))).min(longest)
}

#[cfg(test)]
#[path = "roster_tests.rs"]
mod tests;
